"""A client's view of the distribution of software (`launch`): an application starts, and reads its files by catalogs.

`applications`: which files a start reads; `staged`: the repository in the store; `public`: read without a signature;
`squid`: the HTTP cache in front. May import: what `workloads` may.
"""
