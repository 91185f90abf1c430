"""Finds, for `radiator check`, what is wrong with segments that `log_keep` keeps: no start needs them, `restore --log`
does.
"""

from contextlib import suppress
from pathlib import Path

from radiator.model.errors import StoreError
from radiator.storage.report import Report
from radiator.storage.wal import Damaged, Place, SoundPart, is_blank, opening_in, segments_in, sound_part

_ADVICE = "no backup can be brought beyond that with it; make a new one"


def check_kept(wal: Path, store_id: str, applied: Place, report: Report) -> None:
    """Reads them whole. A broker may use one again meanwhile: that is not a mistake. Raises StoreError, OSError.

    wal: the directory. applied: the last entry that the tables have; the segments before its own are only kept.
    """
    before: SoundPart | None = None
    kept = [(number, path) for number, path in segments_in(wal) if number < applied.number]
    for at, (number, path) in enumerate(kept):
        report.progress("reading kept segments of the log", "segments", at, len(kept))
        try:
            part = sound_part(path, number, store_id)
            is_damaged = part is None and not is_blank(path)
        except FileNotFoundError:
            continue
        except StoreError as error:
            clause = f"{error.clause}." if isinstance(error, Damaged) else error
            report.find(f"log_keep keeps {path.name}, and it is of no use: {clause}")
            continue
        if part is None:
            if is_damaged:
                report.find(f"log_keep keeps {path.name}, and it is of no use: its opening is damaged; {_ADVICE}.")
            continue
        if not part.next and _is_still(path, store_id, part):
            report.find(f"{path}, which log_keep keeps, is damaged after entry {part.place.index}: {_ADVICE}.")
        elif before is not None and (part.first, part.crc_before) != (before.place.index + 1, before.place.crc):
            missing = f"between {before.place.index} and {part.first}"
            report.find(f"{wal}, where log_keep keeps segments, lacks the entries {missing}: {_ADVICE}.")
        before = part if part.next else None


def _is_still(path: Path, store_id: str, part: SoundPart) -> bool:
    """Whether nobody has used the segment again since it was read."""
    with suppress(FileNotFoundError):
        opening = opening_in(path, store_id)
        return opening is not None and opening[2] == part.salt
    return False
