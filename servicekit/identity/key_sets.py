"""A JSON Web Key Set (RFC 7517), as far as tokens may be signed by it."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import jwt

_MOST_KEYS: Final = 100


class MalformedKeySet(Exception):
    """A text is no key set, or holds no key that may sign."""


class KeySet:
    """The keys that may sign, by id. Immutable."""

    def __init__(self, keys: Mapping[str, jwt.PyJWK], text: str = "") -> None:
        self._keys = keys
        self.text = text
        """What it was read from."""

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._keys)

    def get(self, key_id: str) -> jwt.PyJWK | None:
        """The key of this id."""
        return self._keys.get(key_id)

    @classmethod
    def of(cls, text: str, algorithms: Collection[str]) -> "KeySet":
        """Reads a key set; whatever cannot sign by one of `algorithms` is left out. MalformedKeySet.

        A key is bound to one algorithm, its own `alg` or its type's usual one: what a token's header names
        never chooses how it is verified (RFC 8725, 2.1). Secret keys, which would have to be shared with
        every verifier, keys for encryption and keys without an id are no use here.
        """
        keys = {key_id: key for key_id, key in _usable(_members(text)) if key.algorithm_name in algorithms}
        if not keys:
            raise MalformedKeySet(f"no key in it has an id and signs by {', '.join(sorted(algorithms))}")
        return cls(keys, text)


NO_KEYS: Final = KeySet({})


def _members(text: str) -> list[Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedKeySet("it is no JSON") from error
    members = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(members, list) or len(members) > _MOST_KEYS:
        raise MalformedKeySet(f"it has no list `keys` of at most {_MOST_KEYS}")
    return members


def _usable(members: list[Any]) -> Iterator[tuple[str, jwt.PyJWK]]:
    for member in members:
        if not isinstance(member, dict) or not _may_sign(member):
            continue
        try:
            yield member["kid"], jwt.PyJWK(member)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue  # of a type that this release does not know, or broken


def _may_sign(member: Mapping[str, Any]) -> bool:
    is_public = member.get("kty") != "oct" and "d" not in member
    return is_public and member.get("use", "sig") == "sig" and isinstance(member.get("kid"), str)
