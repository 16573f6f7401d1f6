"""A task and its standby: what is forwarded, how it is applied, who takes over.

The rules are in `protocol/replication`; here they are performed.
"""
