// Signals, and a keyed renderer for trees of plain objects.
//
// A signal is a function: called, it returns its value, and the effect that runs depends
// on it; set replaces the value and schedules those effects. h describes a node, mount
// keeps a DOM element in line with a description. A function in place of a tag is a part
// of the page that renders by itself: when a signal changes, only the parts that read it
// render, in slices of time, so that no task is long. Text is only ever set as text, so
// the page works where the policy forbids markup from strings.

let running = null;
const due = new Set();

/** Returns a signal that holds value. */
export function signal(value) {
  const readers = new Set();
  const read = () => {
    if (running) running.sources.add(readers.add(running));
    return value;
  };
  read.peek = () => value;
  read.set = (next) => {
    if (Object.is(next, value)) return;
    value = next;
    for (const reader of readers) schedule(reader);
  };
  read.update = (change) => read.set(change(value));
  return read;
}

function reaction(fn, later) {
  const self = { sources: new Set(), later, run() {
    self.end();
    const before = running;
    running = self;
    try { fn(); } finally { running = before; }
  }, end() {
    due.delete(self);
    for (const readers of self.sources) readers.delete(self);
    self.sources.clear();
  } };
  self.run();
  return self;
}

/** Runs fn now, and again after a signal that it read has changed. Returns what ends that. */
export const effect = (fn, later = queueMicrotask) => reaction(fn, later).end;

/** Returns a read-only signal of what fn returns. It lives as long as the page. */
export function computed(fn) {
  const out = signal();
  effect(() => out.set(fn()));
  return out;
}

function schedule(self) {
  const { later } = self; // called as a function: the browser's own refuse another this
  if (!due.has(self)) later(() => { if (due.has(self)) self.run(); });
  due.add(self);
}

const queue = [], channel = new MessageChannel(), slice = 6; // milliseconds, after which the browser goes on
channel.port1.onmessage = () => {
  const end = performance.now() + slice;
  try { while (queue.length && performance.now() < end) queue.shift()(); } finally { if (queue.length) resume(); }
};

const resume = () => channel.port2.postMessage(0);
const soon = (fn) => { if (queue.push(fn) === 1) document.hidden ? setTimeout(resume, 500) : resume(); };

// Describes an element, or with a function as tag a part: it is called with props and returns one element or nothing.
// A prop key identifies an element among its siblings; ref is called with an element once it is in the page, and with
// null when it is removed.
export function h(tag, props, ...kids) {
  return { tag, props: props || {}, kids: flat(kids, []), key: props?.key, el: null };
}

function flat(kids, out) {
  for (const kid of kids) {
    if (Array.isArray(kid)) flat(kid, out);
    else if (kid === null || kid === undefined || kid === false || kid === true) continue;
    else out.push(typeof kid === 'object' ? kid : { text: String(kid), el: null });
  }
  return out;
}

const arrived = []; // elements whose ref is to be called
let depth = 0; // of renderings within one another

function rendering(fn) {
  return reaction(() => {
    depth++;
    try { fn(); } finally { depth--; }
    if (!depth) for (const node of arrived.splice(0)) node.props.ref(node.el);
  }, soon);
}

/** Keeps the children of el in line with what view returns. Returns what ends that. */
export function mount(el, view) {
  let old = [];
  const show = (next) => { patchKids(el, old, next, false); old = next; };
  const { end } = rendering(() => show(flat([view()], [])));
  return () => { end(); show([]); };
}

function createPart(node) {
  const part = (node.part = { props: node.props, tree: null });
  Object.assign(part, rendering(() => {
    const next = flat([node.tag(part.props)], [])[0] || { text: '', el: null }, old = part.tree;
    if (old && old.tag === next.tag && old.key === next.key) patch(old, next, false);
    else {
      create(next, false);
      if (old) { elementOf(old).before(elementOf(next)); remove(old); }
    }
    part.tree = next;
  }));
  return elementOf(node);
}

function patchPart(old, next) {
  const part = (next.part = old.part), was = part.props, names = Object.keys(part.props = next.props);
  if (names.length !== Object.keys(was).length || names.some((k) => !Object.is(was[k], next.props[k]))) part.run();
}

const elementOf = (node) => (node.part ? elementOf(node.part.tree) : node.el);

function create(node, svg) {
  if (node.tag === undefined) return (node.el = document.createTextNode(node.text));
  if (typeof node.tag === 'function') return createPart(node);
  svg = svg || node.tag === 'svg';
  node.el = svg ? document.createElementNS('http://www.w3.org/2000/svg', node.tag) : document.createElement(node.tag);
  patchKids(node.el, [], node.kids, svg);
  setProps(node.el, {}, node.props);
  if (node.props.ref) arrived.push(node);
  return node.el;
}

function patch(old, next, svg) {
  if (old === next) return;
  if (old.part) { patchPart(old, next); return; }
  const el = (next.el = old.el);
  if (next.tag === undefined) { if (old.text !== next.text) el.nodeValue = next.text; return; }
  svg = svg || next.tag === 'svg';
  patchKids(el, old.kids, next.kids, svg);
  setProps(el, old.props, next.props);
}

function patchKids(parent, old, next, svg) {
  const keyed = new Map(), loose = [];
  for (const node of old) node.key === undefined ? loose.push(node) : keyed.set(node.key, node);
  const kept = new Set();
  let at = 0;
  const placed = next.map((node) => {
    let match = null;
    if (node.key !== undefined) match = keyed.get(node.key);
    else if (at < loose.length) match = loose[at++];
    if (match && match.tag === node.tag && !kept.has(match)) {
      kept.add(match);
      patch(match, node, svg);
    } else create(node, svg);
    return elementOf(node);
  });
  for (const node of old) if (!kept.has(node)) remove(node);
  let cursor = parent.firstChild;
  for (const el of placed) {
    if (el === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(el, cursor);
  }
}

// If the removed element has the focus, the content of the page gets it, so that the keyboard goes on from there.
function remove(node) {
  const el = elementOf(node), focused = el.contains(document.activeElement);
  unref(node);
  el.remove();
  if (focused) document.getElementById('main')?.focus({ preventScroll: true });
}

function unref(node) {
  if (node.part) { node.part.end(); unref(node.part.tree); return; }
  if (node.tag === undefined) return;
  node.props.ref?.(null);
  for (const kid of node.kids) unref(kid);
}

const asProperty = new Set(['value', 'checked', 'disabled', 'selected', 'open', 'indeterminate', 'scrollTop']);

function setProps(el, old, next) {
  for (const name in { ...old, ...next }) setProp(el, name, old[name], next[name]);
}

function setProp(el, name, before, value) {
  if (name === 'key' || name === 'ref') return;
  if (name.startsWith('on')) { el[name] = value || null; return; }
  if (asProperty.has(name) && name in el) {
    if (el[name] !== value) el[name] = value ?? '';
    return;
  }
  if (before === value) return;
  if (name === 'style') { // through the object model, which the policy allows
    for (const p in value) el.style.setProperty(p, value[p]);
  } else if (value === undefined || value === null || value === false) el.removeAttribute(name);
  else el.setAttribute(name, value === true ? '' : value);
}
