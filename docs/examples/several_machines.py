"""Learn from a text that lies in parts on the disks of several machines. On each of them::

    torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint first-machine:29500 \\
        several_machines.py FOLDER

``FOLDER/part`` is the part of this machine, a saved corpus with the vocabulary of the whole text.
"""

import sys
from pathlib import Path

import torch.distributed

import pyro_unsup as pu


def main(folder: Path) -> None:
    torch.distributed.init_process_group("gloo")
    corpus = pu.data.Corpus.open(folder / "part")
    engine = pu.EM(pu.models.Tagger(tags=4, vocab=corpus.vocab))
    kept = folder / "kept"  # written by the first process; resumed from if it is there
    resume = pu.load(kept) if kept.exists() else None
    fit = engine.run(corpus, iterations=8, tolerance=0.0, sharded=True, checkpoint=kept, resume=resume)
    fit.save(folder / "fit")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
