"""Two tasks in one process; an operation on each, run by one session."""

import socket

import tensorflow as tf


def free_ports(count):
    holders = [socket.socket() for _ in range(count)]
    for holder in holders:
        holder.bind(("localhost", 0))
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


def main():
    addresses = [f"localhost:{port}" for port in free_ports(2)]
    cluster = tf.train.ClusterSpec({"local": addresses})
    servers = [tf.train.Server(cluster, "local", index) for index in range(2)]
    with tf.device("/job:local/task:0"):
        hello = tf.constant("Hello from task 0, ")
    with tf.device("/job:local/task:1"):
        greeting = tf.string_join([hello, "and from task 1!"])
    with tf.Session(servers[0].target) as session:
        print(session.run(greeting).decode())
    for server in servers:
        server.stop()


if __name__ == "__main__":
    main()
