"""Pictures of what was learned. Each function takes a result, draws on matplotlib axes and returns them.

Nothing is shown or saved: call ``ax.figure.savefig(...)``, or let a notebook display the figure. Those that end in
``_svg`` need no matplotlib: they return SVG that a notebook displays, with ``save(...)``.
"""

from pyro_unsup.plot.alignments import alignment_grid, alignment_svg
from pyro_unsup.plot.calibration import check_plot, rank_ecdf, rank_histogram
from pyro_unsup.plot.confusion import confusion_matrix
from pyro_unsup.plot.curves import learning_curve, learning_curves
from pyro_unsup.plot.curves_svg import learning_curve_svg, restarts_svg
from pyro_unsup.plot.dependencies import dependency_diagram, dependency_svg
from pyro_unsup.plot.grids import heat_map
from pyro_unsup.plot.series import (
    forecast_fan,
    residual_plot,
    series_by_state,
    state_probabilities,
    transition_graph,
)
from pyro_unsup.plot.states_svg import series_svg, transition_svg
from pyro_unsup.plot.trees import tree_diagram, tree_svg
from pyro_unsup.plot.words import top_words, top_words_grid

__all__ = [
    "alignment_grid",
    "alignment_svg",
    "check_plot",
    "confusion_matrix",
    "dependency_diagram",
    "dependency_svg",
    "forecast_fan",
    "heat_map",
    "learning_curve",
    "learning_curve_svg",
    "learning_curves",
    "rank_ecdf",
    "rank_histogram",
    "residual_plot",
    "restarts_svg",
    "series_by_state",
    "series_svg",
    "state_probabilities",
    "top_words",
    "top_words_grid",
    "transition_graph",
    "transition_svg",
    "tree_diagram",
    "tree_svg",
]
