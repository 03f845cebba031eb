/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs at the end of a copy of the page (check_browser.py): does what a reader
 * does and writes what is wrong, a line each, into the element #probe. Changes
 * the page as it goes, so the order of the checks matters.
 */
(() => {
'use strict';
const wrong = [];
const all = (query, from = document) => [...from.querySelectorAll(query)];
const says = (good, text) => good || wrong.push(text);
const seen = e => e.getClientRects().length > 0;
const texts = (table, at) =>
    [...table.tBodies[0].rows].map(r => r.cells[at].textContent);

/* --- a page opens with the answer and four figures; the rest folds --- */

const first = all('h2')[0].id;
says(/^answer(ed)?$/.test(first), `order: the first section is ${first}`);
says(all('main > section').length <= 7, 'order: too many are open');
says(all('details.fold').every(d => !d.open), 'order: a fold is open');

/* --- controls: a name, and reached by keyboard --- */

const name = e => (e.getAttribute('aria-label') || e.textContent ||
                   e.labels?.[0]?.textContent || '').trim();
all('details').forEach(d => d.open = true);
const controls = all('button, input, summary, a[href], [tabindex]');
says(controls.length > 20, `controls: only ${controls.length}`);
controls.filter(seen).forEach(e => {
  const what = `${e.tagName} of ${e.closest('section, details')?.
      querySelector('h2')?.id}`;
  says(name(e), `name: none on ${what}`);
  says(e.tabIndex >= 0, `keyboard: ${what} is not reached`);
  e.focus({preventScroll: true});
  says(document.activeElement === e, `keyboard: ${what} takes no focus`);
  says(getComputedStyle(e).outlineStyle !== 'none',
       `keyboard: no outline on ${what}`);
});
all('svg').filter(s => s.querySelector('title') || s.tabIndex >= 0)
    .forEach(s => says(s.tabIndex >= 0, 'keyboard: a figure is not reached'));

/* --- tables --- */

const number = text => parseFloat(text);
all('.scroll table').forEach(table => {
  const label = table.parentElement.getAttribute('aria-label');
  all('thead button', table).forEach((b, at) => {
    const before = texts(table, at);
    if (new Set(before).size < 3) return;
    b.click();
    const head = b.closest('th'), up = texts(table, at);
    says(head.getAttribute('aria-sort') === 'ascending',
         `sort: no aria-sort in ${label}`);
    b.click();
    const down = texts(table, at);
    says(up.join('|') !== down.join('|'), `sort: ${label} stays as it was`);
    says([...before].sort().join('|') === [...down].sort().join('|'),
         `sort: ${label} lost a row`);
    const plain = up.filter(t => /^-?[\d.]+(e[-+]?\d+)?%?$/.test(t));
    says(plain.every((t, i) => !i || number(plain[i - 1]) <= number(t)),
         `sort: ${label}, column ${at} is not in order`);
  });
  const input = table.parentElement.previousElementSibling;
  if (!input?.matches('input[type=search]')) {
    says(table.tBodies[0].rows.length < 6, `filter: none of ${label}`);
    return;
  }
  const rows = [...table.tBodies[0].rows], what = rows[0].textContent.trim();
  input.value = what.split('\n')[0];
  input.dispatchEvent(new Event('input'));
  says(seen(rows[0]), `filter: ${label} hides what it asks for`);
  input.value = 'what nobody says';
  input.dispatchEvent(new Event('input'));
  says(!rows.some(seen), `filter: ${label} shows what it does not ask for`);
  input.value = '';
  input.dispatchEvent(new Event('input'));
  says(rows.every(seen), `filter: ${label} does not come back`);
});

/* --- points --- */

const tip = document.getElementById('tip');
const figures = all('svg[tabindex]').filter(seen);
says(figures.length > 3, `points: only ${figures.length} figures`);
figures.slice(0, 12).forEach(svg => {
  const point = all('.m, .b', svg).find(p => p.getBoundingClientRect().width);
  if (!point) return;
  const want = point.querySelector('title')?.textContent;
  point.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
  says(!tip.hidden && tip.textContent && (!want || tip.textContent === want),
       `points: silent under the pointer: ${svg.getAttribute('aria-label')}`);
  document.body.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
  says(tip.hidden, 'points: a tip stays where no point is');
  svg.focus({preventScroll: true});
  const texts = ['ArrowRight', 'ArrowRight'].map(key => {
    svg.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    return tip.hidden ? '' : tip.textContent;
  });
  says(texts[0] && texts[1], 'points: silent at an arrow key');
  svg.blur();
  says(tip.hidden, 'points: a tip stays behind');
});

/* --- methods --- */

const box = all('.legend input')[0], line = box?.closest('li').className;
const drawn = () => all(`.${line}:not(li)`).filter(seen).length;
const count = line ? drawn() : 0;
says(count > 5, `methods: ${count} things of the first line`);
if (count) {
  box.click();
  says(drawn() === 0, 'methods: one that is off is drawn');
  says(all(`.legend .${line} input`).every(b => !b.checked),
       'methods: other switches of it are on');
  box.click();
  says(drawn() === count, 'methods: one that is on again is not drawn');
  const buttons = all('.legend button');
  buttons.find(b => b.textContent === 'none').click();
  says(!all('.m[class*=" v"]').some(seen), 'methods: none leaves some');
  says(!all('svg:has([class*=" v"]) .r').some(seen), 'methods: none leaves rows');
  buttons.find(b => b.textContent === 'all').click();
  says(drawn() === count, 'methods: all leaves some out');
}

/* --- width and colours --- */

const wide = document.documentElement.scrollWidth;
if (wide > innerWidth) {
  const far = all('body *').filter(e => seen(e) &&
      Math.max(e.getBoundingClientRect().right, e.scrollWidth) >
          innerWidth + 1 && !e.matches('body, main') &&
      !e.closest('.scroll, .wide'));
  wrong.push(`width: ${wide} of ${innerWidth}: ` + far.slice(0, 4).map(
      e => `${e.tagName}.${e.className.baseVal ?? e.className}`).join(', '));
}
const light = color => {
  const [r, g, b] = color.match(/[\d.]+/g).map(x => x / 255).map(
      x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + .05) / (y + .05);
};
const of = e => getComputedStyle(e);
const paper = of(document.body).backgroundColor;
const card = of(document.querySelector('figure')).backgroundColor;
says(contrast(of(document.body).color, paper) > 7, 'colours: faint text');
all('figcaption, .soft, .sub').forEach(e => says(
    contrast(of(e).color, e.closest('figure') ? card : paper) > 4.5,
    `colours: faint ${e.tagName}`));
all('.m').slice(0, 200).forEach(e => says(
    contrast(of(e).color, card) > 3, `colours: faint ${e.classList[0]}`));
const dark = matchMedia('(prefers-color-scheme:dark)').matches;
says(dark === (light(paper) < .2), 'colours: not what the reader asked for');

const probe = document.createElement('pre');
probe.id = 'probe';
probe.textContent = JSON.stringify({
  dark, width: innerWidth, controls: controls.length,
  wrong: [...new Set(wrong)]});
document.body.append(probe);
})();
