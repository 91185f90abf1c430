"""Plain data that every floor knows: messages, commands, replies, writes and reads, limits, settings and errors."""
