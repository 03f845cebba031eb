/* SPDX-License-Identifier: Apache-2.0
 *
 * The page's one script, which its policy names by its digest: tables sort and
 * filter, points name themselves under the pointer and to the keyboard, and a
 * method is switched on and off wherever it is drawn. Its controls are made
 * here, so that a page without script shows none; it loads and keeps nothing.
 */
(() => {
'use strict';
const all = (query, from = document) => [...from.querySelectorAll(query)];
const make = (name, set, ...inside) => {
  const e = Object.assign(document.createElement(name), set);
  e.append(...inside);
  return e;
};
const button = (text, click) => {
  const b = make('button', {type: 'button'}, text);
  b.addEventListener('click', click);
  return b;
};

/* --- tables: a click on a head sorts, a text filters ---------------------- */

const units = {B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40};

/* What a cell begins with, as a number; NaN: it begins with none. */
const number = text => {
  const m = /^-?[\d.]+(?:e[-+]?\d+)?/.exec(text);
  const unit = m && units[text.slice(m[0].length).trim()];
  return m ? Number(m[0]) * (unit || 1) : NaN;
};

/* Numbers before texts, and nothing at the end, whichever way it is sorted. */
const compare = (a, b, sign) => {
  const empty = (a === '\u2013') - (b === '\u2013');
  const x = number(a), y = number(b);
  if (empty) return empty;
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
  return sign * (x - y || a.localeCompare(b, 'en', {numeric: true}));
};

const sort = (table, at) => {
  const heads = all('thead th', table), body = table.tBodies[0];
  const up = heads[at].getAttribute('aria-sort') !== 'ascending';
  const rows = [...body.rows].map(r => [r.cells[at].textContent.trim(), r]);
  rows.sort((a, b) => compare(a[0], b[0], up ? 1 : -1));
  heads.forEach(h => h.removeAttribute('aria-sort'));
  heads[at].setAttribute('aria-sort', up ? 'ascending' : 'descending');
  body.append(...rows.map(r => r[1]));
};

const filter = (table, text) => {
  const words = text.toLowerCase().split(/\s+/);
  for (const r of table.tBodies[0].rows) {
    const has = r.textContent.toLowerCase();
    r.hidden = !words.every(w => has.includes(w));
  }
};

all('.scroll').forEach(box => {
  const table = box.querySelector('table');
  const name = `Rows of \u201c${box.getAttribute('aria-label')}\u201d with`;
  all('thead th', table).forEach((head, at) => {
    const b = button('', () => sort(table, at));
    b.append(...head.childNodes);
    head.append(b);
  });
  if (table.tBodies[0].rows.length < 6) return;
  const input = make('input', {type: 'search', placeholder: 'filter rows'});
  input.setAttribute('aria-label', name);
  input.addEventListener('input', () => filter(table, input.value));
  box.before(input);
});

/* --- methods: on and off everywhere ---------------------------------------- */

/* Lines that are off are named by one rule of the sheet, so that a switch costs
 * the same on a page of ten thousand points. */
const sheet = document.styleSheets[0], rule = sheet.cssRules.length;
const boxes = new Map(), off = new Set();
const show = () => {
  const names = off.size ? [...off].map(v => '.' + v).join() : '#none';
  if (sheet.cssRules.length > rule) sheet.deleteRule(rule);
  sheet.insertRule(`:is(${names}):not(li){display:none}`, rule);
  boxes.forEach((list, v) => list.forEach(b => b.checked = !off.has(v)));
};
const turn = (v, on) => on ? off.delete(v) : off.add(v);
const turn_all = on => {
  boxes.forEach((_, v) => turn(v, on));
  show();
};

all('.legend').forEach(legend => {
  const lines = all('li', legend).filter(li => /^v\d+$/.test(li.className));
  lines.forEach(li => {
    const v = li.className, b = make('input', {type: 'checkbox', checked: true});
    const label = make('label', {}, b, ...li.childNodes);
    b.addEventListener('change', () => {
      turn(v, b.checked);
      show();
    });
    li.append(label);
    boxes.set(v, [...boxes.get(v) || [], b]);
  });
  if (lines.length < 3) return;
  legend.append(make('li', {}, button('all', () => turn_all(true)),
                     button('none', () => turn_all(false))));
});

/* Maps of a method go with it: their heading is its name. */
const named = new Map(all('.legend li[class^=v]').map(
    li => [li.textContent, li.className]));
all('.small > div').forEach(map => {
  const v = named.get(map.querySelector('h3')?.textContent);
  if (v) map.classList.add(v);
});

/* --- points: what they say, under the pointer and at an arrow key ---------- */

const tip = make('div', {id: 'tip', hidden: true});
tip.setAttribute('role', 'status');
document.body.append(tip);
let at = null; /* the point that says something */

const hide = () => {
  at?.classList.remove('on');
  at = null;
  tip.hidden = true;
};

/* The browser's own tip of a point would lie on ours: its text moves here. */
const words = new WeakMap();
const said = point => {
  const title = point.querySelector('title');
  if (title) {
    words.set(point, title.textContent);
    title.remove();
  }
  return words.get(point);
};

const say = point => {
  const text = said(point);
  hide();
  if (!text) return;
  at = point;
  at.classList.add('on');
  tip.textContent = text;
  tip.hidden = false;
  const box = at.getBoundingClientRect(), wide = tip.offsetWidth;
  const left = Math.min(box.right + 8, innerWidth - wide - 8);
  const below = box.bottom + 8 + tip.offsetHeight < innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below ? box.bottom + 8 : box.top - tip.offsetHeight - 8}px`;
};

const points = '.m,.b';
document.addEventListener('pointerover', e => {
  const point = e.target.closest?.(points);
  if (point && point !== at) say(point);
  if (!point) hide();
});
addEventListener('scroll', hide, {passive: true});

const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
const move = (svg, e) => {
  const there = all(points, svg).filter(p => p.getBoundingClientRect().width);
  const step = steps[e.key];
  if (e.key === 'Escape') hide();
  if (!step || !there.length) return;
  e.preventDefault();
  const now = there.indexOf(at), n = there.length;
  say(there[now < 0 ? (step > 0 ? 0 : n - 1) : (now + step + n) % n]);
};
all('svg[role=img]').forEach(svg => {
  if (!svg.querySelector(points)) return;
  svg.tabIndex = 0;
  svg.setAttribute('role', 'application');
  svg.setAttribute('aria-roledescription', 'figure; arrow keys read points');
  svg.addEventListener('keydown', e => move(svg, e));
  svg.addEventListener('blur', hide);
});

/* --- headings that fold ---------------------------------------------------- */

const folds = all('details.fold');
const open_all = on => folds.forEach(d => d.open = on);
const reach = () => {
  const target = location.hash.length > 1 &&
      document.getElementById(location.hash.slice(1));
  const fold = target && target.closest('details');
  if (fold) fold.open = true;
  if (target) target.scrollIntoView();
};
document.getElementById('more')?.after(make(
    'p', {className: 'folds'}, button('open all', () => open_all(true)),
    button('close all', () => open_all(false))));
addEventListener('hashchange', reach);
addEventListener('beforeprint', () => open_all(true));
reach();
})();
