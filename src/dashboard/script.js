// Keeps a page up to date, and asks before changes that cannot be undone. Every page works without it.
"use strict";

(() => {
  const offline = document.getElementById("offline");
  const here = location.pathname + location.search;

  // Updates of fragments with a form in use. They are applied when the form is left.
  const held = new Map();

  function isInUse(element) {
    const active = document.activeElement;
    const writes = active && active !== document.body && element.contains(active) &&
      active.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
    return writes || element.querySelector("[data-changed]") !== null;
  }

  // What the person opened, chose, scrolled to or focused stays so.
  function replace(id, html) {
    const old = document.getElementById(id);
    if (!old) return;
    if (isInUse(old)) {
      held.set(id, html);
      return;
    }
    held.delete(id);
    const template = document.createElement("template");
    template.innerHTML = html;
    const fresh = template.content.firstElementChild;
    const keyed = (root) => new Map([...root.querySelectorAll("details")].map((one, index) =>
      [one.dataset.key || one.querySelector("summary")?.textContent || index, one]));
    const before = keyed(old);
    for (const [key, one] of keyed(fresh)) {
      if (before.has(key)) one.open = before.get(key).open;
    }
    for (const box of old.querySelectorAll("input[type=checkbox]:checked")) {
      const same = fresh.querySelector(`input[name="${CSS.escape(box.name)}"][value="${CSS.escape(box.value)}"]`);
      if (same) same.checked = true;
    }
    // The id in the form that starts a workflow stays, so that the form starts one execution however often it is sent.
    for (const one of old.querySelectorAll("[data-fixed]")) {
      const same = fresh.querySelector(`[data-fixed][name="${CSS.escape(one.name)}"]`);
      if (same) same.value = one.value;
    }
    const focusable = "a, button, input, select, textarea, summary, [tabindex]";
    const position = [...old.querySelectorAll(focusable)].indexOf(document.activeElement);
    const scrolled = [...old.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    old.replaceWith(fresh);
    [...fresh.querySelectorAll(".scroll")].forEach((one, index) => {
      if (scrolled[index]) [one.scrollLeft, one.scrollTop] = scrolled[index];
    });
    if (position >= 0) [...fresh.querySelectorAll(focusable)][position]?.focus({ preventScroll: true });
    wordTimes(fresh);
  }

  function replaceHeld() {
    for (const [id, html] of [...held]) replace(id, html);
  }

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (field.form && field.form.method === "post" && !field.matches("[type=checkbox]")) {
      field.toggleAttribute("data-changed", field.value !== field.defaultValue);
    }
  });
  document.addEventListener("focusout", () => setTimeout(replaceHeld, 0));

  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm;
    if (question && !confirm(question)) {
      event.preventDefault();
      return;
    }
    // Not at once: a disabled button would not be sent.
    setTimeout(() => event.target.querySelectorAll("button").forEach((one) => { one.disabled = true; }), 0);
  });

  // Back from another page, the buttons can be used again.
  addEventListener("pageshow", () => {
    document.querySelectorAll("form button").forEach((one) => { one.disabled = false; });
  });

  // A link to a visit opens it.
  function openTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

  function wordTimes(root) {
    for (const element of root.querySelectorAll("time")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      const seconds = Math.max(0, Math.round((Date.now() - time.getTime()) / 1000));
      const [unit, size] = units.find(([, size]) => seconds >= size) || ["s", 1];
      element.title = time.toLocaleString();
      const words = `${Math.floor(seconds / size)} ${unit} ago`;
      if (element.textContent !== words) element.textContent = words;
    }
  }
  wordTimes(document);
  setInterval(() => wordTimes(document), 1000);

  function say(problem) {
    offline.textContent = problem;
    offline.hidden = problem === "";
  }

  let version = document.body.dataset.version;
  let source = null;

  function follow() {
    source = new EventSource(`/live?page=${encodeURIComponent(here)}&version=${encodeURIComponent(version)}`);
    source.onopen = () => say("");
    source.onmessage = (event) => {
      const message = JSON.parse(event.data);
      if (message.problem) return say(`This page is not up to date: ${message.problem}`);
      if (message.reload) return location.reload();
      version = event.lastEventId;
      say("");
      for (const fragment of message.fragments) replace(fragment.id, fragment.html);
    };
    source.onerror = () => {
      say("The server does not answer. This page is up to date again once it does; if it was stopped, run midex dashboard.");
      // An EventSource retries after a network error, but not after an HTTP error.
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
    };
  }
  if (version) follow();
})();
