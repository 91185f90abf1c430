"""The server around the pure broker: sockets, threads, time, signals, the log. The only folder that imports gevent.

Everything on the hub is a callback that never waits: reading (Connection._readable), writing (Connection._write), a
turn (Dispatcher._turn), what is due (Timetable._run), accepting (Listener._accept), the answers of the threads
(Worker._on_done), ticks. So nothing interrupts a callback, and no lock is needed. An idle connection is a watcher and
no greenlet: 4.5 KiB instead of 13.

Greenlets may switch only in Server.run, which waits for a signal, in Server._wind_up, which waits for the last commit
and the last bytes, and in Dialer._keep, which dials other nodes. Read next: serve.py, dispatcher.py.
"""
