// Looks every two seconds whether the runs went on, and puts what is new into the page without losing the place in it.
"use strict";
(() => {
  const place = document.getElementById("live");
  let seen = null;
  const names = (doc) => [...doc.querySelectorAll(".chart")].map((chart) => chart.id).join();

  const renew = async () => {
    const text = await (await fetch(location.pathname)).text();
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (!fresh.getElementById("main") || names(fresh) !== names(document)) return location.reload();
    for (const section of document.querySelectorAll("main > section")) {
      const other = fresh.getElementById(section.id);
      if (other && !section.querySelector(".chart, #run-diagnosis")) section.innerHTML = other.innerHTML;
    }
    document.querySelector("h1 + p").textContent = fresh.querySelector("h1 + p").textContent;
    if (window.surefoot) window.surefoot.update(JSON.parse(fresh.getElementById("data").textContent));
  };

  const look = async () => {
    try {
      const state = await (await fetch(`${location.pathname}state`)).json();
      if (seen !== null && state.version !== seen) await renew();
      seen = state.version;
      place.textContent = state.trouble ? `Live, but not all can be read: ${state.trouble}` : `Live at ${new Date().toLocaleTimeString()}.`;
    } catch (error) {
      place.textContent = "No longer live: surefoot watch has ended. The page stays as it was.";
    }
    setTimeout(look, 2000);
  };
  look();
})();
