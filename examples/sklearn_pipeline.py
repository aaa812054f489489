"""Calibrate a scikit-learn pipeline with surefoot's maps: the map chosen by cross-validation, scored by ECE and NLL."""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from surefoot.integrations.scorers import scorer
from surefoot.integrations.sklearn import CalibratedClassifier

inputs, places = make_classification(
    3000, n_features=20, n_informative=6, n_redundant=10, n_classes=3, class_sep=0.8, random_state=0
)
labels = np.array(["ant", "bee", "cat"])[places]
train_inputs, test_inputs, train_labels, test_labels = train_test_split(inputs, labels, random_state=0)

# redundant features: naive Bayes counts the same evidence several times
plain = make_pipeline(StandardScaler(), GaussianNB()).fit(train_inputs, train_labels)
search = GridSearchCV(
    make_pipeline(StandardScaler(), CalibratedClassifier(GaussianNB())),
    {"calibratedclassifier__method": ["temperature", "svs", "dirichlet", "isotonic"]},
    scoring=scorer("nll"),
    cv=3,
).fit(train_inputs, train_labels)

ece, nll = scorer("ece"), scorer("nll")  # scores: the larger, the better, so errors come with a minus
for name, model in (("naive Bayes", plain), (f"with {search.best_params_}", search)):
    errors = f"ECE {-ece(model, test_inputs, test_labels):.3f}, NLL {-nll(model, test_inputs, test_labels):.3f}"
    print(f"{name}: {errors}, n = {len(test_labels)}")

assert ece(search, test_inputs, test_labels) > ece(plain, test_inputs, test_labels) / 3
assert nll(search, test_inputs, test_labels) > nll(plain, test_inputs, test_labels) + 0.1
assert set(search.predict(test_inputs)) <= {"ant", "bee", "cat"}
