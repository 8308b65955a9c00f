"""A factorial hidden Markov model: two appliances switch on and off, and one meter reads the sum of what they draw.

    heater[0] --> heater[1] --> heater[2] --> ...      each with its own start and transition
         \\            \\            \\
        x[0]          x[1]          x[2]               x[t] ~ Normal(base + what is on, noise)
         /             /             /
    kettle[0] --> kettle[1] --> kettle[2] --> ...

The chains are independent until the readings are seen; then both explain them, and neither can be summed out alone.
Pyro's enumeration contracts the two together, so EM needs nothing that is special to this model: four tables in closed
form, and the four numbers of the meter by L-BFGS.

Checked in tests/docs/test_examples.py: EM by brute force, in numpy, goes through every joint path of both chains and
solves the M step of the meter by weighted least squares. Objectives and parameters agree with it.
"""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import constraints

import pyro_unsup as pu

#: Kilowatts, where training starts. The two must differ, or nothing tells the appliances apart.
START = {"base": 0.0, "heater": 1.5, "kettle": 2.5, "noise": 0.5}


def model(readings: Tensor) -> None:  # (B, T) kilowatts, one row a day
    """Two enumerated variables a time step."""
    tables = {
        name: (pu.table(f"{name} start", 2), pu.table(f"{name} transition", 2, 2)) for name in ("heater", "kettle")
    }
    base, heater, kettle = (pyro.param(name, readings.new_tensor(START[name])) for name in ("base", "heater", "kettle"))
    noise = pyro.param("noise", readings.new_tensor(START["noise"]), constraint=constraints.greater_than(0.01))
    on: dict[str, Tensor] = {}
    with pyro.plate("days", len(readings)):
        for t in pyro.markov(range(readings.shape[1])):
            for name, (start, transition) in tables.items():
                row = transition[on[name]] if t else start
                on[name] = pyro.sample(f"{name}_{t}", pu.Categorical(row))
            drawn = base + heater * on["heater"] + kettle * on["kettle"]
            pyro.sample(f"x_{t}", dist.Normal(drawn, noise), obs=readings[:, t])


def draw(days: int = 100, steps: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Readings (B, T), and which appliances are on, (2, B, T): heaters stay on for long, kettles do not."""
    generator = torch.Generator().manual_seed(seed)
    stay = torch.tensor([[0.9, 0.9], [0.85, 0.3]])  # (appliance, on): chance to stay as it is
    on = torch.randint(2, (2, days, steps), generator=generator)
    for t in range(1, steps):
        before = on[..., t - 1]
        same = torch.rand(2, days, generator=generator) < torch.stack([stay[i][before[i]] for i in range(2)])
        on[..., t] = torch.where(same, before, 1 - before)
    noise = 0.2 * torch.randn(days, steps, dtype=torch.float64, generator=generator)
    return 0.3 + 1.0 * on[0] + 2.0 * on[1] + noise, on


def main() -> None:
    readings, on = draw()
    fit = pu.EM(model).run(readings, progress=False)
    print(fit.report)
    print("kilowatts:", "  ".join(f"{name} {float(value):.2f}" for name, value in fit.params.items()))
    hidden = fit.predict(readings)
    for i, name in enumerate(("heater", "kettle")):
        stay = fit.weights[f"{name} transition"].exp().diagonal()
        found = torch.stack([hidden[f"{name}_{t}"] for t in range(readings.shape[1])], -1)
        right = (found == on[i]).double().mean()
        print(f"{name}: stays off {stay[0]:.2f}, stays on {stay[1]:.2f}; {100 * right:.0f}% of its states found")


if __name__ == "__main__":
    main()
