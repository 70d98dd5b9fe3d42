"""Keys in the settings, and a server that strangers reach."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rtc_agent.config import Settings, dump, load
from rtc_agent.errors import ConfigError
from rtc_agent.exposure import guard_rules, is_public, require_keys

SECRET = "a secret of more than twenty characters"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("192.0.2.7", True),
        ("server.example", True),
    ],
)
def test_who_reaches_it(host: str, public: bool) -> None:
    settings = Settings(host=host)
    assert is_public(host) is public
    assert guard_rules(settings).public is public
    if public:
        with pytest.raises(ConfigError, match="--insecure-public"):
            require_keys(settings)
    else:
        require_keys(settings)
    require_keys(Settings(host=host, insecure_public=True))
    require_keys(Settings.model_validate({"host": host, "keys": [{"name": "a", "sha256": DIGEST}]}))


def test_a_key_is_kept_as_its_hash_however_it_came(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET + "\n")
    config = tmp_path / "config.toml"
    config.write_text(
        f'keys = [{{ name = "a", secret = "{SECRET}" }}, {{ name = "b", file = "{file}" }},'
        f' {{ name = "c", sha256 = "{DIGEST}", scopes = ["admin"], max_calls = 2 }}]'
    )
    settings = load(config)
    assert [key.sha256 for key in settings.keys] == [DIGEST] * 3
    assert SECRET not in repr(settings) and SECRET not in dump(settings)
    again = Settings.model_validate_json(dump(settings))
    assert guard_rules(again) == guard_rules(settings)
    assert guard_rules(settings).keys[2].max_calls == 2


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ('name = "a"', "one of"),
        (f'name = "a", secret = "{SECRET}", sha256 = "{DIGEST}"', "one of"),
        ('name = "a", secret = "short"', "at least 20"),
        ('name = "a", secret = "ein sehr geheimer Schlüssel"', "ASCII"),
        ('name = "a", file = "/nowhere/at/all"', "cannot be read"),
        (f'name = "a", sha256 = "{DIGEST}", scopes = []', "opens nothing"),
        (f'name = "a", sha256 = "{DIGEST}", scopes = ["root"]', "scopes"),
        (f'name = "a", sha256 = "{DIGEST}", scope = "call"', "no such setting"),
        (f'name = "a", sha256 = "{DIGEST}" }}, {{ name = "a", sha256 = "{DIGEST}"', "same name"),
    ],
)
def test_keys_that_do_not_fit_are_refused_without_their_secret(
    tmp_path: Path, key: str, fault: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"keys = [{{ {key} }}]")
    with pytest.raises(ConfigError, match=fault) as refusal:
        load(config)
    assert SECRET not in str(refusal.value)


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ConfigError, match="belong together"):
        load(tls_cert=Path("cert.pem"))
