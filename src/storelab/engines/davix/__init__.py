"""Engine `davix`: the HTTP library of HEP, through a small program of storelab's own (davix.cpp), built at install.

May import: what `engines` may, and the clients of `fsspec` and `planned`, which it works like.
"""
