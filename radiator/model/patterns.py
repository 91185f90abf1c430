"""Names of words separated by `.`, and patterns of them: `*` is one word, `#` is zero or more.

Used for topics, for the tables of config.toml, and for rights. No regular expressions: a hostile pattern costs words x
words, never more.
"""

import re
import unicodedata

from radiator.model.limits import (
    CONSUMER_NAME_MAX_BYTES,
    CONTAINS_SETS_MAX,
    NAME_MAX_BYTES,
    NODE_NAME_MAX_BYTES,
)

# the name of a node, as text and as bytes
_NODE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
NODE_NAME = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9._-]{0,%d}" % (NODE_NAME_MAX_BYTES - 1))


def name_mistake(name: str) -> str:
    """Why it is not a NAME of a destination, as the end of a clause with "which"; "" if it is one.

    A NAME is 1 to 255 bytes of UTF-8 with no control character; wildcards are not looked at.
    """
    if not name:
        return f"is empty; a name has 1 to {NAME_MAX_BYTES} bytes"
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > NAME_MAX_BYTES:
        return f"has {size} bytes of UTF-8; a name has at most {NAME_MAX_BYTES}"
    for character in name:
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"has the control character U+{ord(character):04X}; a name has none"
    return ""


def consumer_name_mistake(name: str) -> str:
    """Why no consumer may be called so, as the end of a sentence about the name; "" if one may."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= CONSUMER_NAME_MAX_BYTES:
        return f"has {size} bytes: the name of a consumer has 1 to {CONSUMER_NAME_MAX_BYTES}"
    if name_mistake(name):
        return name_mistake(name)
    return ""


def is_node_name(name: str) -> bool:
    """Whether a node may be called so: 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with a dot."""
    return len(name) <= NODE_NAME_MAX_BYTES and _NODE_NAME.fullmatch(name) is not None


def is_pattern(name: str) -> bool:
    """Whether any word of it is a wildcard."""
    return any(word in ("*", "#") for word in name.split("."))


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the name, which has no wildcards."""
    return overlaps(pattern, name)


def overlaps(one: str, other: str) -> bool:
    """Whether some name is matched by both patterns. Costs words x words."""
    ours, theirs = one.split("."), other.split(".")
    # reachable[j]: the words of `ours` so far and the first j words of `theirs` can name the same thing
    reachable = [True] + [False] * len(theirs)
    for j, word in enumerate(theirs):
        reachable[j + 1] = reachable[j] and word == "#"
    for ours_word in ours:
        following = [reachable[0] and ours_word == "#"]
        for j, theirs_word in enumerate(theirs):
            if ours_word == "#" or theirs_word == "#":
                # a `#` takes one more word of the other side and stays, or takes none and is done
                can = following[j] or reachable[j + 1]
            else:
                can = reachable[j] and (ours_word == theirs_word or "*" in (ours_word, theirs_word))
            following.append(can)
        reachable = following
    return reachable[-1]


def contains(pattern: str, other: str) -> bool:
    """Whether `pattern` matches every name that `other` matches. False too where that would take very many steps
    (CONTAINS_SETS_MAX): callers refuse what it cannot decide.

    A `*` of `other` stands for any word, also one that `pattern` does not have, and such a word leaves it the fewest
    ways on: so only these are followed, and for each `#` of `other` any number of them.
    """
    words, others = pattern.split("."), other.split(".")
    if set(others) == {"#"}:
        others = ["*", "#"]  # a name has a word at least
    one = many = 0
    literal: dict[str, int] = {}
    for place, word in enumerate(words):
        if word == "*":
            one |= 1 << place
        elif word == "#":
            many |= 1 << place
        else:
            literal[word] = literal.get(word, 0) | 1 << place
    end = 1 << len(words)

    def closed(reached: int) -> int:
        """A `#` that takes no word lets what follows it begin."""
        while (skipped := reached | (reached & many) << 1) != reached:
            reached = skipped
        return reached

    # bit i of a set: the words of `other` so far can be taken by the first i of `pattern`
    sets = {closed(1)}
    for word in others:
        takes = one if word in ("*", "#") else one | literal.get(word, 0)
        following = set(sets) if word == "#" else set()
        waiting = list(sets)
        while waiting:
            reached = waiting.pop()
            then = closed((reached & takes) << 1 | reached & many)
            if then not in following:
                following.add(then)
                if word == "#":
                    waiting.append(then)
        sets = following
        if 0 in sets or len(sets) > CONTAINS_SETS_MAX:
            return False
    return all(reached & end for reached in sets)


def rank(pattern: str) -> tuple[int, bool]:
    """Sorts best first: most literal words, then the one without `#`."""
    words = pattern.split(".")
    literal = sum(word not in ("*", "#") for word in words)
    return -literal, "#" in words
