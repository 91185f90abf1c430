"""The write-ahead log: what is appended, what is read of it at a start, and the tables that follow it."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "wal-content-not-checked",
        "The checksum of what an entry of the log holds is not compared with its bytes.",
        function="WalReading._entry",
        old="if len(content) != head.length or crc32(content) != head.content_crc:",
        new="if len(content) != head.length:",
    ),
    Mutant(
        "wal-cut-anywhere",
        "The log is cut off at the first entry that is damaged, whatever follows it.",
        function="WalReading._assert_nothing_follows",
        old="if sound is not None:",
        new="if sound is not None and False:",
        also=(Edit(function="WalReading._assert_nothing_follows", old="if later:", new="if later and False:"),),
    ),
    Mutant(
        "cut-segment-taken-for-torn",
        "A segment that somebody has cut off is read as one that a crash has torn.",
        function="WalReading._assert_not_cut",
        old="if data.size < at + _CLOSING_BYTES and not self._is_copy:",
        new="if False:",
    ),
    Mutant(
        "receipt-before-the-wal-is-synced",
        "A commit returns when its entry is written, and not synced.",
        function="WriteAheadLog.append",
        old="os.fdatasync(self._opened)",
        new="",
    ),
    Mutant(
        "chain-not-checked",
        "An entry may follow any other: its index and the checksum of the one before are not compared.",
        function="WalReading._assert_follows",
        old="if (head.index, head.crc_before) != (index, place.crc):",
        new="if False:",
    ),
    Mutant(
        "entries-applied-backwards",
        "A start carries out the last entry first.",
        function="pieces",
        old="piece += operations",
        new="piece[:0] = operations",
    ),
    Mutant(
        "applied-in-another-transaction",
        "The tables have a run of entries, and say so in the next transaction.",
        function="TreeFollower.apply",
        old="changes.carry_out(mark(place))",
        new="",
        also=(
            Edit(
                function="TreeFollower.apply",
                old="self._writer.write(changes)",
                new="""
                    self._writer.write(changes)
                    self._writer.apply([mark(place)])
                """,
            ),
        ),
    ),
    Mutant(
        "old-entries-pass-for-new",
        "The checksum of an entry does not depend on the use of its segment.",
        function="_head_at",
        old="crc = crc32(head, salt & 0xFFFFFFFF) ^ (salt >> 32)",
        new="crc = crc32(head)",
        also=(
            Edit(
                function="_entry_bytes",
                old="crc = crc32(head, salt & 0xFFFFFFFF) ^ (salt >> 32)",
                new="crc = crc32(head)",
            ),
        ),
    ),
    Mutant(
        "recycled-before-the-tables-are-synced",
        "A segment is used again while the tables are still getting its entries.",
        function="TreeFollower.apply",
        old="self._writer.write(changes)",
        new="""
            self._wal.tidy(place.index)
            self._writer.write(changes)
        """,
    ),
    Mutant(
        "segments-never-used-again",
        "A segment stays when the tables have all its entries, whatever log_keep says.",
        function="WriteAheadLog._tidy",
        old="while len(self._used) > 1 and self._used[1][1] <= applied + 1:",
        new="while False:",
    ),
    Mutant(
        "kept-segments-used-again",
        "Of the closed segments that are to be kept none is.",
        function="WriteAheadLog._surplus",
        old="if (one.closed_ms >= oldest_ms) if self._keep.max_ms else (left_bytes <= self._keep.max_bytes):",
        new="if left_bytes <= 0:",
    ),
    Mutant(
        "map-without-room-for-acks",
        "The map of a store ends with map_size, though ACKs copy pages.",
        function="LmdbStore.__init__",
        old="self._env = open_for_writing(data_dir, map_bytes_of(max(map_size, head.end_bytes)))",
        new="self._env = open_for_writing(data_dir, max(map_size, head.end_bytes))",
    ),
    Mutant(
        "rows-wait-without-bound",
        "What waits for the tables is bounded in bytes and entries, and not in rows.",
        function="TreeFollower._is_behind",
        old="or self._row_count > self._rows_bound // share",
        new="",
    ),
    Mutant(
        "forward-without-the-last",
        "A backup is brought forward to the entry before the one that was named.",
        function="LogBehind._planned_entries",
        old="for count, entry in enumerate(islice(self._reading().entries(), plan.entries), 1):",
        new="for count, entry in enumerate(islice(self._reading().entries(), plan.entries - 1), 1):",
    ),
    Mutant(
        "forward-from-a-later-entry",
        "The first entry behind the backup is passed over.",
        function="LogBehind._planned_entries",
        old="for count, entry in enumerate(islice(self._reading().entries(), plan.entries), 1):",
        new="for count, entry in enumerate(islice(self._reading().entries(), 1, plan.entries), 1):",
    ),
    Mutant(
        "reads-of-an-earlier-state",
        "What is read back is what the tables have, and not what was committed since.",
        function="LmdbStore._up_to_date",
        old="self._follower.apply()",
        new="",
    ),
    Mutant(
        "failed-sync-tried-again",
        "Where the log cannot be synced, that is tried once more.",
        function="WriteAheadLog.append",
        old="os.fdatasync(self._opened)",
        new="""
            try:
                os.fdatasync(self._opened)
            except OSError:
                os.fdatasync(self._opened)
        """,
    ),
)
