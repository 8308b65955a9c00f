"""Learn from one text on a Ray cluster::

    pip install 'ray[train]'
    python ray_fit.py FOLDER 4

Ray starts the workers and connects them. ``FOLDER/text`` is a saved corpus, on a file system that all machines share;
the model and its checkpoint come to lie in ``FOLDER``.
"""

import sys
from pathlib import Path

from ray.train import ScalingConfig, get_context
from ray.train.torch import TorchConfig, TorchTrainer

import pyro_unsup as pu


def work(config: dict) -> None:
    folder = Path(config["folder"])
    corpus = pu.data.Corpus.open(folder / "text")
    engine = pu.EM(pu.models.Tagger(tags=4, vocab=corpus.vocab))
    kept = folder / "kept"  # written by the first worker; resumed from if it is there
    resume = pu.load(kept) if kept.exists() else None
    # Every worker is given the whole text, and takes a share of it.
    fit = engine.run(corpus, iterations=8, tolerance=0.0, checkpoint=kept, resume=resume, progress=False)
    if get_context().get_world_rank() == 0:
        fit.save(folder / "fit", overwrite=True)


if __name__ == "__main__":
    TorchTrainer(
        work,
        train_loop_config={"folder": str(Path(sys.argv[1]).resolve())},
        scaling_config=ScalingConfig(num_workers=int(sys.argv[2])),
        torch_config=TorchConfig(backend="gloo"),
    ).fit()
