// Signals, and a keyed renderer for trees of plain objects.
//
// A signal is a function: called, it returns its value, and the effect that runs depends
// on it; set replaces the value and schedules those effects. h describes a node, mount
// keeps a DOM element in line with a description. Text is only ever set as text, so the
// page works where the policy forbids markup from strings.

let running = null;
const due = new Set();

/** Returns a signal that holds value. */
export function signal(value) {
  const readers = new Set();
  const read = () => {
    if (running) { readers.add(running); running.sources.add(readers); }
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

/** Runs fn now, and again after a signal that it read has changed. Returns what ends that. */
export function effect(fn, later = queueMicrotask) {
  const self = { sources: new Set(), later, run() {
    release(self);
    const before = running;
    running = self;
    try { fn(); } finally { running = before; }
  } };
  self.run();
  return () => { release(self); due.delete(self); };
}

/** Returns a read-only signal of what fn returns. It lives as long as the page. */
export function computed(fn) {
  const out = signal();
  effect(() => out.set(fn()));
  return out;
}

function release(self) {
  for (const readers of self.sources) readers.delete(self);
  self.sources.clear();
}

function schedule(self) {
  if (due.has(self)) return;
  due.add(self);
  const { later } = self; // called as a function: the browser's own refuse another this
  later(() => { if (due.delete(self)) self.run(); });
}

/** Describes an element. A prop key identifies an element among its siblings; ref is called with the element once it is in the page, and with null when it goes. */
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

/** Keeps the children of el in line with what view returns. Returns what ends that. */
export function mount(el, view) {
  let old = [];
  const end = effect(() => {
    const next = flat([view()], []);
    patchKids(el, old, next, false);
    old = next;
    for (const node of arrived.splice(0)) node.props.ref(node.el);
  }, (fn) => (document.hidden ? setTimeout(fn, 500) : requestAnimationFrame(fn)));
  return () => { end(); patchKids(el, old, [], false); };
}

const arrived = []; // elements whose ref is to be called

const SVG = 'http://www.w3.org/2000/svg';

function create(node, svg) {
  if (node.tag === undefined) return (node.el = document.createTextNode(node.text));
  svg = svg || node.tag === 'svg';
  node.el = svg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  patchKids(node.el, [], node.kids, svg);
  setProps(node.el, {}, node.props);
  if (node.props.ref) arrived.push(node);
  return node.el;
}

function patch(old, next, svg) {
  if (old === next) return;
  const el = (next.el = old.el);
  if (next.tag === undefined) {
    if (old.text !== next.text) el.nodeValue = next.text;
    return;
  }
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
    return node.el;
  });
  for (const node of old) if (!kept.has(node)) remove(node);
  let cursor = parent.firstChild;
  for (const el of placed) {
    if (el === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(el, cursor);
  }
}

function remove(node) {
  unref(node);
  node.el.remove();
}

function unref(node) {
  if (node.tag === undefined) return;
  node.props.ref?.(null);
  for (const kid of node.kids) unref(kid);
}

const asProperty = new Set(['value', 'checked', 'disabled', 'selected', 'open', 'indeterminate', 'scrollTop']);

function setProps(el, old, next) {
  for (const name in old) if (!(name in next)) setProp(el, name, old[name], undefined);
  for (const name in next) setProp(el, name, old[name], next[name]);
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

const memos = new Map();

/** Returns the description made for these inputs the last time, so that it costs nothing to compare. */
export function memo(key, inputs, make) {
  const last = memos.get(key);
  if (last && last.inputs.length === inputs.length && last.inputs.every((v, i) => Object.is(v, inputs[i]))) return last.node;
  const node = make();
  memos.set(key, { inputs, node });
  return node;
}

/** Forgets what memo kept under keys for which gone is true. */
export function forget(gone) {
  for (const key of memos.keys()) if (gone(key)) memos.delete(key);
}
