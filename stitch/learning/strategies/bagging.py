"""Bagging of gradient boosted trees: every site grows trees on what the global still gets wrong.

Breiman: Bagging Predictors, Machine Learning 24(2), 1996, for the mean over learners on different data;
Friedman: Greedy Function Approximation: A Gradient Boosting Machine, Annals of Statistics 29(5), 2001, for
the trees. Flower's `FedXgbBagging` appends in the same way, without the weights.
"""

from __future__ import annotations

from dataclasses import replace

from stitch.errors import ConfigError
from stitch.learning.forests import read_forest, scaled, unfit_booster, write_forest
from stitch.learning.strategies.settings import MOST, POSITIVE, within
from stitch.learning.strategy import FitResult, NDArrays, Round, Strategy
from stitch.learning.streaming import running_sum, shares_of


class BoosterBagging(Strategy):
    r"""The global's trees, and after them each site's new ones with their leaves scaled.

        f_{t+1}(x) = f_t(x) + eta sum_i p_i s_i (f_i(x) - b_i(x))

    f are scores before the link function (log odds, for example). A site trains on from the global
    (`init_model=` of LightGBM, `xgb_model=` of XGBoost), so its model begins with the trees of its base b_i;
    what comes after them is new. With eta = 1 and fresh passes the new score is the mean of the sites'
    scores, by samples. Objective, features and start are the global's and must be equal everywhere.

    Trees are appended in the order of the site ids; no library is needed. Of LightGBM's file the ranges of
    the features (`feature_infos`) stay the global's: a site's smallest and largest values are not carried on.

    Args:
        weighted: p_i by samples; else 1 / K.
        server_lr: eta.
    """

    measurable = False

    def __init__(self, *, weighted: bool = True, server_lr: float = 1.0) -> None:
        self._weighted = weighted
        self._lr = within("server_lr", server_lr, low=POSITIVE, high=MOST)

    def check_global(self, round_: Round, /) -> None:
        """Read the global being replaced.

        Raises:
            BadModel: it is not readable.
        """
        read_forest(round_.global_path)

    def unfit(self, result: FitResult, round_: Round, /) -> str:  # noqa: ARG002  its base is named
        """Why a site's booster has no part in the round."""
        return "zero samples" if result.n_samples == 0 else unfit_booster(result.path, result.base_path)

    def aggregate(self, round_: Round, /) -> dict[str, float]:
        """See the class; the models are files of trees.

        Raises:
            BadModel: the global is not readable.
        """
        model = read_forest(round_.global_path)
        shares = shares_of(round_.results, weighted=self._weighted)
        total = running_sum(shares)
        trees = list(model.trees)
        for result, share in zip(round_.results, shares, strict=True):
            weight = self._lr * result.weight * share / total
            base, own = read_forest(result.base_path), read_forest(result.path)
            trees += scaled(own, own.trees[len(base.trees) :], by=weight)
            # A global without a tree does not know yet how many one iteration adds.
            model = replace(model, per_iteration=model.per_iteration or own.per_iteration)
        write_forest(replace(model, trees=tuple(trees)), round_.out_path)
        return {"trees": len(trees)}

    def aggregate_fit(
        self,
        global_params: NDArrays,  # noqa: ARG002  refused below
        results: list[tuple[NDArrays, int, dict[str, float], int]],  # noqa: ARG002  as above
    ) -> NDArrays:
        """Trees are no arrays.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("BoosterBagging works on files", hint="Call aggregate, or use it as a strategy.")
