"""How storelab itself speaks with a store: endpoint and credentials, access over S3, files, WebDAV, WebHDFS.

May import: `core`.
"""
