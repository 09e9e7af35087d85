"""The record of what made translations."""

from pathlib import Path

from configs.load import load_config
from inference.output_folder import settings_of


def test_settings_that_change_translations_are_recorded(tmp_path: Path) -> None:
    colors = {name: tmp_path / f"{name}.yaml" for name in ("two", "swapped")}
    for name, lines in zip(colors, (["a: [1, 2, 3]", "b: [4, 5, 6]"], ["b: [4, 5, 6]", "a: [1, 2, 3]"]), strict=True):
        colors[name].write_text("\n".join(lines))
    config = tmp_path / "empty.yaml"
    config.write_text("data: {layout: paired_folders, root: somewhere}")

    def recorded(*settings: str) -> dict[str, object]:
        return settings_of(load_config(config, settings))

    assert recorded() == {"data.layout": "paired_folders"}
    elsewhere = recorded("data.root=elsewhere", "data.workers=0", "data.augment.rotation_degrees=[-5,5]", "run.seed=3")
    assert elsewhere == recorded()
    ranges = recorded("data.source_range=[0,1000]", "data.ignore_id=255", "features.regions=instances")
    assert ranges == {"data.layout": "paired_folders", "data.source_range": [0.0, 1000.0], "data.ignore_id": 255}
    assert len({recorded(f"data.label_colors={file}")["data.label_colors"] for file in colors.values()}) == 2
