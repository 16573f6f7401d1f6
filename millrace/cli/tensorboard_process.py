"""TensorBoard, as a process that ends with the launcher that started it. See `viewer`.

A module of its own, because importing TensorBoard takes longer than any other part of a command.
"""

from tensorboard.main import run_main

from millrace.platform.launcher import end_with_launcher

if __name__ == "__main__":
    end_with_launcher()
    run_main()
