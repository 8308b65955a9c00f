#!/bin/bash
# Learn from one text on the machines of a cluster:
#     sbatch slurm.sh train.conllu
# The text and the result lie on a file system that all machines share. A job that is stopped goes on from its
# checkpoint when it is submitted again, or when Slurm puts it back into the queue.
#SBATCH --job-name=pyro-unsup
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# One torchrun a machine, which starts a process for each core.
srun torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "$SLURM_CPUS_PER_TASK" \
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:${PORT:-29500}" \
    -m pyro_unsup fit tagger "$1" --tags 45 --out tagger --resume
