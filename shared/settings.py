"""What may an operator set in every process, and where does a value come from?

An option is one field. Its value comes from the keyword argument (a flag of the command line), else
from ``GREENROOM_<FIELD>``, else from the ``TELEFUSER_LIVEKIT_*`` variable that means the same, else
from the default. The command line hands its flags to the processes that it starts as
``GREENROOM_*`` variables, so each process reads its environment once, in its ``__main__``, through
`load`. Modules named ``settings`` are the only ones that look at the environment.

A problem that an operator can cure becomes one `StartupError` sentence that names the flag and the
variable; missing ones are all listed at once. Secrets never print, and URLs may carry passwords, so
those that servers use don't print either.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import InvalidName, StartupError
from shared.ids import check_pool
from shared.redis_url import parse_redis_url

ENV_PREFIX = "GREENROOM_"
TELEFUSER_PREFIX = "TELEFUSER_LIVEKIT_"

_LIVEKIT_SCHEMES = ("ws://", "wss://", "http://", "https://")


def env_names(field: str, *, telefuser: str) -> AliasChoices:
    """Return the variables that fill *field*: ours, then ``TELEFUSER_LIVEKIT_<telefuser>``."""
    return AliasChoices(variable_of(field), TELEFUSER_PREFIX + telefuser)


def variable_of(field: str) -> str:
    """Return the environment variable of a field: ``queue_size`` → ``GREENROOM_QUEUE_SIZE``."""
    return ENV_PREFIX + field.upper()


def flag_of(field: str) -> str:
    """Return the flag of a field: ``session_timeout_s`` → ``--session-timeout``."""
    return "--" + field.removesuffix("_s").replace("_", "-")


def child_environment(values: Mapping[str, object]) -> dict[str, str]:
    """Return this process's environment with *values*, by field name, on top."""
    return {**os.environ, **{variable_of(name): str(value) for name, value in values.items()}}


def cache_dir() -> Path:
    """Return the folder for built binaries; it lies outside of any checkout."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "greenroom"


def kept(data_dir: Path, name: str, make: Callable[[], str]) -> str:
    """Return the text kept in ``data_dir/name``; the first caller makes it.

    Safe against another process doing the same now: the file appears complete or not at all, and
    whoever comes second reads the first one's value.
    """
    target = data_dir / name
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            draft = data_dir / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
            draft.touch(mode=0o600)
            draft.write_text(make() + "\n")
            try:
                target.hardlink_to(draft)
            except FileExistsError:
                pass  # another process was first: its value counts
            finally:
                draft.unlink()
        return read_kept(target)
    except OSError as error:
        raise StartupError(
            f"The data folder {data_dir} can't be used ({error.strerror}).",
            try_="give a writable folder with --data-dir",
        ) from error


def read_kept(file: Path) -> str:
    """Return the text that *file* of a data folder keeps.

    Raises:
        OSError: It can't be read.
        StartupError: It is no text, so something else has written over it.
    """
    try:
        return file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise StartupError(
            f"The file {file} holds something else than the text that was kept there.",
            try_="put the right file back, or delete it to have a new one made",
        ) from None


class ProcessSettings(BaseSettings):
    """What all settings classes share: names, order of sources, nothing secret in messages."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        validate_by_alias=True,
        validate_by_name=True,
        validate_default=False,
    )


class SharedSettings(ProcessSettings):
    """Options that replicas and nodes have in common."""

    data_dir: Path = Field(
        default=Path(".greenroom"),
        description="Folder for what must survive a restart: names, keys, embedded servers' data.",
    )
    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0",
        repr=False,
        description="Redis or Valkey (7.0 or newer) that holds the registry and the line: one "
        "server, redis+sentinel://HOST,HOST/SERVICE or redis+cluster://HOST,HOST.",
    )
    livekit_url: str = Field(
        default="",
        validation_alias=env_names("livekit_url", telefuser="URL"),
        description="LiveKit as replicas and nodes reach it.",
    )
    livekit_public_url: str = Field(
        default_factory=lambda data: str(data.get("livekit_url", "")),
        description="LiveKit as browsers reach it; left out: the same URL.",
    )
    livekit_api_key: str = Field(
        default="",
        validation_alias=env_names("livekit_api_key", telefuser="API_KEY"),
        description="LiveKit API key.",
    )
    livekit_api_secret: SecretStr = Field(
        default=SecretStr(""),
        validation_alias=env_names("livekit_api_secret", telefuser="API_SECRET"),
        description="LiveKit API secret; replicas and nodes hold it, browsers never do.",
    )
    pool: str = Field(
        default="default",
        description="Pool of nodes with the same model; a replica takes several, with commas.",
    )
    deployment_id: str = Field(
        default_factory=lambda data: kept(
            Path(data["data_dir"]), "deployment-id", lambda: secrets.token_hex(8)
        ),
        description="Tells our rooms from others' on the same LiveKit; made once if left out.",
    )
    token_ttl_s: int = Field(
        default=3600,
        ge=10,
        validation_alias=env_names("token_ttl_s", telefuser="TOKEN_TTL"),
        description="Seconds for which a room token may be used to join.",
    )
    session_timeout_s: float = Field(
        default=1800,
        ge=0,
        validation_alias=env_names("session_timeout_s", telefuser="SESSION_TIMEOUT"),
        description="Seconds that a session may last; 0: no limit.",
    )
    controller_timeout_s: float = Field(
        default=60,
        ge=0,
        validation_alias=env_names("controller_timeout_s", telefuser="CONTROLLER_TIMEOUT"),
        description="Seconds that a session waits for a controller who is away; 0: no limit.",
    )
    room_empty_timeout_s: float = Field(
        default=30,
        ge=0,
        validation_alias=env_names("room_empty_timeout_s", telefuser="ROOM_EMPTY_TIMEOUT"),
        description="Seconds that a session goes on with nobody in the room; 0: no limit.",
    )

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools named by ``pool``, in order, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.pool.split(",")))

    @field_validator("redis_url")
    @classmethod
    def _redis_scheme(cls, url: str) -> str:
        parse_redis_url(url)
        return url

    @field_validator("livekit_url", "livekit_public_url")
    @classmethod
    def _livekit_scheme(cls, url: str) -> str:
        return _with_scheme(url, _LIVEKIT_SCHEMES) if url else url

    @field_validator("pool")
    @classmethod
    def _pool_names(cls, pool: str) -> str:
        try:
            for name in pool.split(","):
                check_pool(name.strip())
        except InvalidName as error:
            raise ValueError(str(error)) from error
        return pool

    @model_validator(mode="after")
    def _livekit_complete(self) -> Self:
        given = {
            "livekit_url": self.livekit_url,
            "livekit_api_key": self.livekit_api_key,
            "livekit_api_secret": self.livekit_api_secret.get_secret_value(),
        }
        missing = [name for name, value in given.items() if not value]
        if missing:
            raise ValueError(f"{_named(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return self


S = TypeVar("S", bound=ProcessSettings)


def load(settings: type[S], **flags: Any) -> S:
    """Read *settings* from flags and environment, or raise a `StartupError` of one sentence."""
    try:
        return settings(**flags)
    except ValidationError as error:
        raise StartupError(
            _sentence(error), try_="set them as flags or variables; --help lists all"
        ) from None


def _with_scheme(url: str, schemes: Iterable[str]) -> str:
    if not url.startswith(tuple(schemes)):
        raise ValueError(f"must begin with one of {', '.join(schemes)}")
    return url


def _named(fields: Iterable[str]) -> str:
    return ", ".join(f"{flag_of(field)} ({variable_of(field)})" for field in fields)


def _within_a_sentence(text: str) -> str:
    """Begin *text* with a small letter, unless its first word is one in capitals, such as GPU."""
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def _sentence(error: ValidationError) -> str:
    """Join all problems to one sentence that names flags and variables but never a value."""
    problems = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "default_factory_not_called":
            continue  # only follows from another problem, which is listed
        if not problem["loc"]:
            problems.append(text)
            continue
        field = str(problem["loc"][0]).removeprefix(ENV_PREFIX).lower()
        problems.append(f"{_named([field])}: {_within_a_sentence(text)}")
    return f"These settings can't be used: {'; '.join(problems)}."
