"""Boards over SSH: connection, session, lock, files."""
