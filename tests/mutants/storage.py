"""The data directory: files, locks, records, LMDB, backup, compact."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "backup-readable-by-all",
        "Backups get the mode that the umask gives them.",
        function="_copy",
        old="opened = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)",
        new="opened = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)",
        also=(Edit(function="install", old="new.chmod(0o600)", new=""),),
    ),
    Mutant(
        "bindings-not-recovered",
        "A start finds no binding that was stored.",
        function="Start._read_declarations",
        old="return declared, bindings",
        new="return declared, []",
    ),
    Mutant(
        "newest-events-not-searched",
        "A search of the journal passes over what LMDB has not got yet.",
        function="LmdbStore.load_events",
        old="more, is_missing = self._up_to_date().load_events(rest)",
        new="more, is_missing = self._reader.load_events(rest)",
    ),
    Mutant(
        "search-goes-on-behind-a-block",
        "A slice of a search of the journal misses the first event of its first block.",
        function="load_events",
        old="return LoadedEvents(load.request, found, max(first, load.offset)), False",
        new="return LoadedEvents(load.request, found, max(first, load.offset) + 1), False",
    ),
    Mutant(
        "block-not-checked",
        "The checksum of a block of records is not compared with its bytes.",
        function="checked",
        old='records.check(key, value, _HEAD.size, "block", is_longer=True, version=version)',
        new="""
            if len(value) < _HEAD.size + _CRC_BYTES:
                raise _damaged(key)
        """,
    ),
    Mutant(
        "compact-in-two-steps",
        "Compacting takes the old file away before the new one has its name.",
        function="_compacted",
        old="install(new, file)",
        new="""
            file.unlink()
            install(new, file)
        """,
    ),
    Mutant(
        "counts-changed-silently",
        "The record of a redelivery count has its bytes the other way round, and no new version.",
        function="_COUNT",
        old='_COUNT = struct.Struct(">BBI")',
        new='_COUNT = struct.Struct("<BBI")',
    ),
    Mutant(
        "damaged-time-believed",
        "The time of a damaged delayed message is believed: what stands behind it waits as long.",
        function="TreeReader.load_delayed",
        old="if not is_due and found.message is not None:",
        new="if not is_due:",
    ),
    Mutant(
        "data-file-not-locked",
        "A data directory whose radiator.lock was removed takes a second broker.",
        function="BrokerLock.lock_data",
        old="if not _is_locked(opened):",
        new="if False:",
    ),
    Mutant(
        "delayed-counts-lost",
        "How often a delayed message came back is forgotten when it is read.",
        function="TreeReader._stored_delayed",
        old="return StoredMessage(position, message, redeliveries, redelivered or self._is_suspect(position))",
        new="return StoredMessage(position, message, 0, redelivered or self._is_suspect(position))",
    ),
    Mutant(
        "delayed-not-checked",
        "The checksum of a delayed message is not compared with its bytes.",
        function="decode_delayed",
        old='check(key, value, _COUNT.size + _MESSAGE_HEAD.size, "delayed message", is_longer=True)',
        new="""
            if len(value) < _COUNT.size + _MESSAGE_HEAD.size + CRC_BYTES:
                raise DamagedRecord("The delayed message is cut.")
        """,
    ),
    Mutant(
        "directory-left-open",
        "A data directory that is open to others stays so.",
        function="prepare",
        old="""
            directory.chmod(_DIRECTORY_MODE)
            for name in _FILES:
        """,
        new="for name in _FILES:",
    ),
    Mutant(
        "earlier-ledgers-refused",
        "A ledger that format 1 or 2 has written is taken for a damaged one.",
        function="decode_ledger",
        old="if len(value) == _LEDGER_1.size + CRC_BYTES:",
        new="if False:",
    ),
    Mutant(
        "files-readable-by-all",
        "The files of a store may be read by every user of the machine.",
        function="_FILE_MODE",
        old="_FILE_MODE = 0o600",
        new="_FILE_MODE = 0o644",
    ),
    Mutant(
        "killed-backup-stays",
        "What a killed backup has left stays for ever.",
        function="backup",
        old="_remove_leftovers(target.parent)",
        new="",
    ),
    Mutant(
        "links-followed",
        "A link in the data directory is taken for the file that it leads to.",
        function="is_regular",
        old="mode = file.lstat().st_mode",
        new="mode = file.stat().st_mode",
    ),
    Mutant(
        "metasync-off",
        "A commit syncs its pages, but not the head that makes them count: LMDB's MDB_NOMETASYNC.",
        function="open_for_writing",
        old="metasync=True,",
        new="metasync=False,",
    ),
    Mutant(
        "name-in-file-path",
        "Each new queue leaves a file of its name beside the store.",
        function="LmdbStore.commit",
        old="self._guard.judge(writes)",
        new="""
            self._guard.judge(writes)
            for write in writes:
                if type(write).__name__ == "Declare":
                    try:
                        (self._file.parent / f"{write.name}.queue").touch()
                    except OSError:
                        pass
        """,
    ),
    Mutant(
        "newer-version-accepted",
        "A store of a newer format is opened as if it were of ours.",
        function="refuse_other_formats",
        old="if number not in records.FORMATS_READ:",
        new="if not number:",
    ),
    Mutant(
        "no-crc",
        "The checksum of a stored record is not compared with its bytes.",
        function="check",
        old="if stored != actual:",
        new="if False:",
    ),
    Mutant(
        "no-directory-fsync",
        "The name of a new store is never synced, nor that of its directory.",
        function="sync_directory",
        old="_sync(directory, os.O_RDONLY | os.O_DIRECTORY)",
        new="os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))",
    ),
    Mutant(
        "no-length-check",
        "A file that is shorter than its own head says is opened, and read through the map all the same.",
        function="checked_head",
        old="if head.end_bytes <= head.file_bytes:",
        new="if head.end_bytes:",
    ),
    Mutant(
        "reader-leak",
        "The loader's thread keeps the read transaction of its first measurement: no page is used again.",
        function="measure:used_bytes",
        old="""
            with env.begin() as txn:
                stats = [txn.stat(table) for table in tables.values()]
        """,
        new="""
            used_bytes.txn = getattr(used_bytes, "txn", None) or env.begin()
            stats = [used_bytes.txn.stat(table) for table in tables.values()]
        """,
    ),
    Mutant(
        "stale-reader",
        (
            "A read transaction is left open after the first load: pages that are given free since then cannot be"
            " used again."
        ),
        function="TreeReader.load",
        old="found, bytes_left = loaded.messages, load.bytes_max",
        new="""
            found, bytes_left = loaded.messages, load.bytes_max
            self._forgotten = getattr(self, "_forgotten", None) or self._env.begin()
        """,
    ),
    Mutant(
        "store-created-in-place",
        "A new store is made under its own name at once: a crash in between leaves half of one.",
        function="create",
        old="new = data_dir / directory.NEW_FILE",
        new="new = data_dir / directory.DATA_FILE",
    ),
    Mutant(
        "stored-messages-not-marked-after-kill",
        (
            "After an unclean stop, messages stored before it that were out are delivered again without"
            " `redelivered:true`."
        ),
        function="Start.__init__",
        old="self.redelivered_below = numbers[REDELIVERED_BELOW] if was_clean else boot",
        new="self.redelivered_below = numbers[REDELIVERED_BELOW]",
    ),
    Mutant(
        "sync-off",
        "A commit returns before the disk has it: LMDB's MDB_NOSYNC.",
        function="open_for_writing",
        old="sync=True,",
        new="sync=False,",
    ),
    Mutant(
        "unfinished-restore-served",
        "A start takes a directory whose restore has not come to its end for an empty one.",
        function="open_store",
        old="directory.refuse_unfinished_restore(data_dir)",
        new="",
    ),
    Mutant(
        "write-map",
        "The store is written through its map, where a full disk kills the process and no trace sees the writes.",
        function="open_for_writing",
        old="writemap=False,",
        new="writemap=True,",
    ),
    Mutant(
        "last-key-kept-behind-an-upsert",
        "The writer still takes a row for the last one that was put behind it by an Upsert, and appends before that.",
        function="TreeWriter._write",
        old="self._last_keys.pop(name, None)",
        new="",
    ),
    Mutant(
        "last-key-kept-behind-a-delete",
        "The writer still takes a row for the last one that has gone: what follows is sorted in, and takes more pages.",
        function="TreeWriter._delete",
        old="""
            if keys[-1] >= self._last_keys.get(name, b""):
                self._last_keys.pop(name, None)
        """,
        new="",
    ),
)
