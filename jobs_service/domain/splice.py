"""Joining the store's events and a worker's live ones: nothing twice, out of order or missing.

Sequences are `epoch * 2^32 + n`, without gaps inside an epoch. A live event may die unflushed with its
worker: the first event of the next epoch names the last durable sequence before it, and a reader drops what
it has beyond.
"""

from collections.abc import Set as AbstractSet
from enum import StrEnum

from jobs_store.errors import CursorOutOfRange
from jobs_store.events import Event, EventKind
from jobs_store.identifiers import EPOCH_BITS, Sequence, epoch_of
from jobs_store.reading import Position

_FIRST = 1


class Place(StrEnum):
    """Where a live event lies, as seen from a cursor."""

    NEXT = "NEXT"
    BEHIND = "BEHIND"
    BEYOND_A_GAP = "BEYOND_A_GAP"


def place_of(event: Event, cursor: Sequence) -> Place:
    """Whether a live event is the next one, was read already, or comes after some that only the store has."""
    sequence = event.sequence
    if sequence <= cursor:
        return Place.BEHIND
    if sequence >> EPOCH_BITS == cursor >> EPOCH_BITS:
        follows = sequence == cursor + 1
    else:
        follows = _number_of(sequence) == _FIRST and last_durable(event) <= cursor
    return Place.NEXT if follows else Place.BEYOND_A_GAP


def last_durable(event: Event) -> int:
    """The last durable sequence before the first event of an epoch; 0 when nothing was before."""
    return int(str(event.attributes.get("last_durable_sequence", 0)))


def check_cursor(cursor: Sequence, position: Position) -> None:
    """CursorOutOfRange when the events after this cursor cannot be had: its epoch never was, the job has
    ended before it, or they are not kept any more. Any other cursor past the durable end waits."""
    told = {"cursor": str(cursor), "last_sequence": str(position.last_sequence)}
    if epoch_of(cursor) > position.epoch:
        raise CursorOutOfRange("The cursor names an epoch that never was.", metadata=told)
    if position.state.terminal and cursor > position.last_sequence:
        raise CursorOutOfRange("The cursor lies beyond the end of the job.", metadata=told)
    check_kept(cursor, position)


def check_kept(cursor: Sequence, position: Position) -> None:
    """CursorOutOfRange when the log has reached its retention and the cursor is not at its end."""
    if position.trimmed and cursor < position.last_sequence:
        raise CursorOutOfRange(
            "The events after the cursor are not kept any more.",
            metadata={"cursor": str(cursor), "last_sequence": str(position.last_sequence)},
        )


def is_over(cursor: Sequence, position: Position) -> bool:
    """Whether a reader at this cursor has all there will be, unless somebody retries the job."""
    return position.state.terminal and cursor >= position.last_sequence


def is_wanted(event: Event, kinds: AbstractSet[EventKind]) -> bool:
    """Whether a filter lets an event through; no kinds: all. The terminal one always passes."""
    return not kinds or event.kind in kinds or event.ends_stream


def _number_of(sequence: Sequence) -> int:
    return sequence & ((1 << EPOCH_BITS) - 1)
