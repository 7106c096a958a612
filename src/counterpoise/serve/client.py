"""Client of the service, on the standard library alone."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlsplit


class ServiceError(Exception):
    """Problem that the service reports.

    Parameters
    ----------
    problem : dict
        The problem document: ``status``, ``title``, ``detail``, and ``row`` and ``field`` if the
        problem is in one of them.

    Attributes
    ----------
    problem : dict
        The problem document.

    Examples
    --------
    >>> from counterpoise.serve import ServiceError
    >>> print(ServiceError({"status": 409, "detail": "'p1' was learned already; give a new id"}))
    409: 'p1' was learned already; give a new id
    """

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        super().__init__(f"{self.problem.get('status')}: {self.problem.get('detail')}")


class Client:
    """Client of a service, with one connection that is opened again when it is needed.

    A request may be sent again: the same events get the same answers, and a label is learned once.

    Parameters
    ----------
    url : str
        The address of the service.
    token : str, optional
        The bearer token.
    timeout : float, default=30.0
        Seconds to wait.

    Examples
    --------
    >>> from counterpoise.serve import Client
    >>> client = Client("http://127.0.0.1:8080")
    >>> client.predict({"payment": "p1", "amount": 7.5})["prediction"]  # doctest: +SKIP
    'yes'
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        make = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = make(parts.netloc, timeout=timeout)
        self._path = parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def predict(self, events: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
        """Predict one event or several.

        Parameters
        ----------
        events : dict or list of dict
            The id and the features of each event.

        Returns
        -------
        dict or list of dict
            The answer of each event.
        """
        return self.send("POST", "/predict", events)

    def label(self, labels: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
        """Send labels.

        Parameters
        ----------
        labels : dict or list of dict
            The id and the label of each event.

        Returns
        -------
        dict or list of dict
            What became of each label.
        """
        return self.send("POST", "/label", labels)

    def learn(self, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
        """Send events that have their labels already.

        Parameters
        ----------
        rows : dict or list of dict
            The id, the features and the label of each event.

        Returns
        -------
        dict or list of dict
            What became of each event.
        """
        return self.send("POST", "/learn", rows)

    def erase(self, id: str) -> Any:  # noqa: A002
        """Erase an event.

        Parameters
        ----------
        id : str
            Its id.

        Returns
        -------
        dict
            What the event was.
        """
        return self.send("DELETE", f"/events/{quote(id, safe='')}")

    def model(self) -> Any:
        """Return a description of the model.

        Returns
        -------
        dict
            Version, classes, numbers of events and labels, and the quality of the predictions.
        """
        return self.send("GET", "/model")

    def send(self, method: str, path: str, content: Any = None) -> Any:
        """Send a request, and once again if the connection was closed.

        Parameters
        ----------
        method, path : str
            The method and the path of the request.
        content : object, optional
            The content, sent as JSON.

        Returns
        -------
        object
            The answer.
        """
        body, headers = None, dict(self._headers)
        if content is not None:
            body, headers["Content-Type"] = json.dumps(content).encode(), "application/json"
        for is_last in (False, True):
            try:
                self._connection.request(method, self._path + path, body, headers)
                response = self._connection.getresponse()
                data = response.read()
                break
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                if is_last:
                    raise
        answer = json.loads(data)
        if response.status >= 400:
            raise ServiceError(answer)
        return answer
