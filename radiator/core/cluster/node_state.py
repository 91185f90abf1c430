"""What is known of a node: its latest state, put together from its news. Only the node itself changes its state; all
others pass it on.

A state is newer if its incarnation (one run of the node) is later, or else if its number is higher. Names, patterns and
the lengths of lists were checked when the frames were read (protocols/peer/).
"""

from dataclasses import dataclass, field

from radiator.model.errors import LinkError
from radiator.model.limits import INCARNATION_MAX, NODE_NEIGHBOURS_MAX, NODE_PATTERNS_MAX
from radiator.model.peer import NodeState, Version

MS_BITS = 41  # the lower bits of an incarnation, below those of the boot
BOOT_MAX = INCARNATION_MAX >> MS_BITS
ITEM_COST_BYTES = 4  # what a name or pattern in a list takes besides its bytes
NEVER = (0, 0)


def incarnation_of(boot: int, now_ms: int) -> int:
    """Returns the incarnation of a node whose store was opened for the `boot`-th time, at that time.

    It ascends with the boots. A store that was restored from a backup repeats boots; the time makes each of them
    another incarnation all the same.
    """
    return min(boot, BOOT_MAX) << MS_BITS | now_ms & (1 << MS_BITS) - 1


def incarnation_above(name: str, incarnation: int, now_ms: int) -> int:
    """Returns an incarnation later than this one, which others say that this node has had. Raises LinkError if there is
    none left.
    """
    boot = incarnation >> MS_BITS
    if boot >= BOOT_MAX:
        raise LinkError(f"Node {name} is said to be in its incarnation {incarnation}: it cannot have started so often.")
    return incarnation_of(boot + 1, now_ms)


def check_version(version: Version) -> None:
    """Raises LinkError for an incarnation that no node can have reached."""
    if version.incarnation > INCARNATION_MAX:
        raise LinkError(
            f"Node {version.origin} is said to be in its incarnation {version.incarnation}: at most {INCARNATION_MAX} "
            "can be."
        )


def size_bytes(state: NodeState) -> int:
    """Returns about how many bytes a state takes in an outgoing buffer."""
    lists = (state.neighbours, state.neighbours_gone, state.patterns, state.patterns_gone)
    return len(state.address) + sum(len(item) + ITEM_COST_BYTES for items in lists for item in items)


@dataclass(slots=True)
class Change:
    """What a node's news changes: the links that it claims or no longer claims, and the patterns that it wants or no
    longer wants.
    """

    linked: set[str]
    unlinked: set[str]
    wanted: set[str]
    unwanted: set[str]


@dataclass(slots=True)
class Known:
    """What is known of one node. sequence: that of its last topic message that was taken, in this incarnation."""

    incarnation: int = 0
    number: int = 0
    address: str = ""
    neighbours: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    sequence: int = 0

    @property
    def version(self) -> tuple[int, int]:
        return self.incarnation, self.number

    def state(self, name: str) -> NodeState:
        """Returns the node's whole state. name: the node's."""
        version = Version(name, self.incarnation, self.number)
        return NodeState(version, True, sorted(self.neighbours), [], sorted(self.patterns), [], self.address)

    def change(self, state: NodeState) -> Change:
        """Returns what the news would change, without changing it. Raises LinkError if a bound would be exceeded."""
        linked, unlinked = _change(self.neighbours, state.is_full, state.neighbours, state.neighbours_gone)
        wanted, unwanted = _change(self.patterns, state.is_full, state.patterns, state.patterns_gone)
        for what, count, most in (
            ("links", len(self.neighbours) + len(linked) - len(unlinked), NODE_NEIGHBOURS_MAX),
            ("patterns", len(self.patterns) + len(wanted) - len(unwanted), NODE_PATTERNS_MAX),
        ):
            if count > most:
                raise LinkError(
                    f"Node {state.version.origin} is said to have {count} {what}: at most {most} are taken."
                )
        return Change(linked, unlinked, wanted, unwanted)

    def apply(self, state: NodeState, change: Change) -> None:
        """Applies the change. A new incarnation counts its messages from the beginning."""
        if state.version.incarnation != self.incarnation:
            self.sequence = 0
        self.incarnation, self.number = state.version.incarnation, state.version.number
        self.address = state.address
        self.neighbours |= change.linked
        self.neighbours -= change.unlinked
        self.patterns |= change.wanted
        self.patterns -= change.unwanted


def _change(had: set[str], is_full: bool, more: list[str], gone: list[str]) -> tuple[set[str], set[str]]:
    """Returns what the news adds, and what it removes."""
    if is_full:
        has = set(more)
        return has - had, had - has
    return set(more) - had, had.intersection(gone)
