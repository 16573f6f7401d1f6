"""Election of the chief: where its lease is kept, who campaigns for it, and what follows from it.

    register.py    the interface of a place that can keep the lease, and its address
    backends.py    opens one of these:
    builtin.py     ... on a task of the cluster
    zookeeper.py   ... in ZooKeeper
    etcd.py        ... in etcd
    access.py      credentials for the last two
    campaign.py    a thread that reads and renews the lease for one worker
    session.py     sessions and hooks that follow the outcome

The rules of the lease are in `millrace.protocol.election`; what keeps a deposed chief from writing
checkpoints is `millrace.training.checkpoint.fence`.
"""
