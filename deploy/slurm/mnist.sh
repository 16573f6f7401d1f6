#!/bin/bash
# What `millrace launch --on slurm` writes, for those who submit by hand: sbatch deploy/slurm/mnist.sh
#SBATCH --job-name=mnist
#SBATCH --ntasks=3
#SBATCH --time=1:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@60

# The signal reaches all tasks at once: the ps serve until the chief has saved.
export MILLRACE_GRACE_SECONDS=50
# All nodes must see it, and only you may read it.
export MILLRACE_TOKEN_FILE=$SLURM_SUBMIT_DIR/token
srun --kill-on-bad-exit=1 --output=task-%t.log millrace task --ps 1 examples/mnist_async.py -- --train_dir=$SLURM_SUBMIT_DIR/train
