"""Pictures of what was learned. Each function takes a result, draws on matplotlib axes and returns them.

Nothing is shown or saved: call ``ax.figure.savefig(...)``, or let a notebook display the figure.
"""

from pyro_unsup.plot.confusion import confusion_matrix
from pyro_unsup.plot.curves import learning_curve
from pyro_unsup.plot.words import top_words, top_words_grid

__all__ = ["confusion_matrix", "learning_curve", "top_words", "top_words_grid"]
