"""Where a data set is, data.root. Imports nothing slow: a wrong one is reported before torch is there."""

import re

from utils.paths import expanded

CREDENTIALS = {  # how they are given, by the schemes of addresses that are read
    "http": "a line of ~/.netrc",
    "https": "a line of ~/.netrc",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
}


def data_root_problem(root: str) -> str | None:
    """Return why `root` is no folder of a data set, with the remedy; None where it is one. `~` is the user's home."""
    folder = expanded(root, "data.root")
    if folder.is_file():
        return f"data.root: is a file: {root}. Name its folder: data.root=FOLDER."
    return None if folder.is_dir() else f"data.root: no such folder: {root}. Set data.root=FOLDER."


def address_problem(address: str) -> str | None:
    """Return why an address of another machine cannot be read from, with the remedy; None where it can, and for paths.

    Passwords and signatures are not shown.
    """
    if "://" not in address:
        return None
    scheme, shown = address.partition(":")[0], without_secrets(address)
    if not re.match(r"(https?|s3|gs)://(?!.*://)[^/]", shown, re.DOTALL):
        expected = "http://HOST/PATH, https://HOST/PATH, s3://BUCKET/PATH or gs://BUCKET/PATH"
        return f"{scheme}://...: expected {expected}."
    if shown != address:
        where = CREDENTIALS[scheme]
        return f"{shown}: holds a password or a query, which a run would store. Remove it; give credentials by {where}."
    return f"{shown}: has .. in its path. Remove it." if ".." in address.split("/") else None


def without_secrets(address: str) -> str:
    """Return an address without user, password, query and fragment."""
    return re.sub(r"(?<=://).*@|[?#].*", "", address, flags=re.DOTALL)
