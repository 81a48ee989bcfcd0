"""URLs of stores, and where a system keeps what can be fetched again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evseq.golden.store import Store, platform_cache, store_url


class TestUrl:
    @pytest.mark.parametrize("raw", ["goldens", "/data/goldens", "../kept here", "c:x", "a/b:c", ""])
    def test_a_folder_is_none(self, raw: str) -> None:
        assert store_url(raw) is None

    @pytest.mark.parametrize(
        "raw", ["s3://bucket/evseq", "file:///data/g", "webdav+https://host:8080/a", "simplecache::s3://bucket"]
    )
    def test_any_protocol_will_do(self, raw: str) -> None:
        assert store_url(raw) == raw

    def test_a_slash_at_the_end_is_nothing(self) -> None:
        assert store_url("s3://bucket/evseq/") == "s3://bucket/evseq"

    @pytest.mark.parametrize("raw", ["s3://", "S3://bucket", "s3:// bucket", "http://host/a?token=1", "s3://a#b"])
    def test_one_that_no_name_can_be_added_to_is_refused(self, raw: str) -> None:
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is the expectation
            store_url(raw)
        assert str(error.value) == (
            f"{raw!r} is no URL that names can be added to\n  help: write protocol://place, such as s3://bucket/evseq"
        )

    @pytest.mark.parametrize(
        ("raw", "said"),
        [
            ("ftp://me:s@cret@host/goldens", "ftp://...@host/goldens"),
            ("https://token@host/goldens", "https://...@host/goldens"),
            ("zip::ftp://me:secret@host/a::s3://bucket/b", "zip::ftp://...@host/a::s3://bucket/b"),
        ],
    )
    def test_a_password_is_refused_and_not_shown(self, raw: str, said: str) -> None:
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is the expectation
            store_url(raw)
        assert str(error.value) == (
            f"{said!r} holds a password or a token, which reports would show\n"
            "  help: keep it where the package of the protocol looks for it, such as its own environment variables"
        )


def test_an_object_is_named_below_the_url() -> None:
    assert Store(url="s3://bucket/evseq", cache=Path("c")).address("a/b.c") == "s3://bucket/evseq/a/b.c"


class TestCache:
    def test_a_system_says_where(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "linux")
        assert platform_cache({"XDG_CACHE_HOME": "/fast"}) == Path("/fast/evseq")
        assert platform_cache({}) == Path.home() / ".cache" / "evseq"

    def test_macos_has_a_folder_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        assert platform_cache({"XDG_CACHE_HOME": "/fast"}) == Path.home() / "Library" / "Caches" / "evseq"
