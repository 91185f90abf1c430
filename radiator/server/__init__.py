"""The shell: sockets, threads, time, signals and the log around the pure broker. The only folder that imports gevent.

Everything on the hub is a callback that never waits: reading (Connection._readable), writing (Connection._write), a
turn (Dispatcher._turn), what is due (Timetable._run), accepting (Listener._accept), the answers of the two threads
(Worker._on_done), ticks. So nothing can come between two lines of them, and no lock is needed. An idle connection is a
watcher and no greenlet: 4.5 KiB instead of 13.

Every place where a greenlet may switch: Server.run, which waits for a signal, and Server._wind_up, which waits for the
last commit and the last bytes. Read next: serve.py, dispatcher.py.
"""
