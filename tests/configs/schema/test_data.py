"""The section `data`: where a data set may be."""

import pytest

from configs.schema import DataConfig
from utils.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "message"),
    {
        "ftp://host/a": "ftp://...: expected http://HOST/PATH, https://HOST/PATH, s3://BUCKET/PATH or gs://BUCKET/PATH.",
        "HTTP://host/a": "HTTP://...: expected",
        "http:///a": "http://...: expected",
        "simplecache::http://u:secret@host/a": "simplecache://...: expected",
        "pipe:curl -u u:secret http://host/a": "pipe://...: expected",
        "https://u:secret@host/a": "https://host/a: holds a password or a query, which a run would store. Remove it; ",
        "https://host/a?signature=secret": "https://host/a: holds a password or a query, ",
        "https://u:sec/ret@host/a": "https://host/a: holds a password or a query, ",
        "https://host/a#secret": "https://host/a: holds a password or a query, ",
        "s3://u:secret@bucket/a": "s3://bucket/a: holds a password or a query, which a run would store. Remove it; "
        "give credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws.",
        "https://host/a/../b": "https://host/a/../b: has .. in its path. Remove it.",
    }.items(),
)
def test_an_address_that_is_not_read_is_refused_without_showing_secrets(address: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DataConfig(root=address)
    assert str(raised.value).startswith(f"data.root: {message}")
    assert "sec" not in str(raised.value)
