"""Flags come out of config fields, with their types."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from stoker.cli.options import add_options, read_options
from stoker.core.config import EngineConfig, ServeConfig


def parse(config: type, *argv: str) -> object:
    parser = ArgumentParser()
    add_options(parser, config)
    return read_options(config, parser.parse_args(argv))


def test_no_flags_give_the_defaults() -> None:
    assert parse(EngineConfig) == EngineConfig()
    assert parse(ServeConfig) == ServeConfig()


def test_flags_are_read_as_their_field_types() -> None:
    config = parse(
        EngineConfig,
        *("--num-pages", "12", "--kv-cache-gib", "1.5", "--no-prefix-caching"),
        *("--kv-dtype", "f32", "--model", "folder"),
    )
    assert config == EngineConfig(
        num_pages=12, kv_cache_gib=1.5, prefix_caching=False, kv_dtype="f32", model="folder"
    )


def test_lists_become_tuples() -> None:
    config = parse(ServeConfig, "--cors-origins", "http://a", "--cors-origins", "http://b")
    assert config == ServeConfig(cors_origins=("http://a", "http://b"))


def test_a_list_does_not_swallow_the_model() -> None:
    parser = ArgumentParser()
    parser.add_argument("model", nargs="?")
    add_options(parser, ServeConfig)
    args = parser.parse_args(["--cors-origins", "http://a", "folder"])
    assert (args.model, args.cors_origins) == ("folder", ["http://a"])


@pytest.mark.parametrize("argv", [("--kv-dtype", "f64"), ("--threads", "two"), ("--no-such", "1")])
def test_a_wrong_flag_ends_with_code_2(argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        parse(EngineConfig, *argv)
    assert exit_info.value.code == 2


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_a_number_that_json_cannot_carry_is_refused(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = ArgumentParser()
    add_options(parser, EngineConfig)
    with pytest.raises(SystemExit):
        parser.parse_args(["--kv-cache-gib", value])
    assert "not a finite number" in capsys.readouterr().err
