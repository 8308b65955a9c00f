"""The style of a page: one accent colour, light and dark, for wide screens, phones and paper."""

#: Colours of states: those of Okabe and Ito, made darker on light ground and lighter on dark ground.
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --soft: #5b6470; --line: #e2e6ea; --wash: #f5f7f9;
  --accent: #0b6e6e; --shade: 11 110 110; --bad: #b3261e; --bad-shade: 179 38 30;
  --s0: #0067a5; --s1: #c04e00; --s2: #00805c; --s3: #a8477d; --s4: #9a6b00; --s5: #2f7fb0; --s6: #30343a;
    --s7: #70757c;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --ink: #e6e9ec; --soft: #a3adb8; --line: #2c3238; --wash: #1c2024;
    --accent: #4fc4bd; --shade: 79 196 189; --bad: #ff8a80; --bad-shade: 255 138 128;
    --s0: #4aa8e0; --s1: #f08a4b; --s2: #35c79a; --s3: #e49ac2; --s4: #e3b341; --s5: #8ecdf2; --s6: #d5dade;
      --s7: #9aa2ab;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.25rem 5rem; overflow-wrap: anywhere; }
header .kind { color: var(--accent); font-weight: 600; letter-spacing: .02em; margin: 0 0 .35rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.015em; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 0 0 .8rem; letter-spacing: -.01em; }
h3 { font-size: 1.02rem; margin: 2rem 0 .5rem; }
p { margin: .6rem 0; max-width: 44rem; }
.lead { font-size: 1.12rem; color: var(--soft); }
.soft, figcaption { color: var(--soft); font-size: .92rem; }
a { color: var(--accent); }
code { font: .88em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--wash); border-radius: .5rem; padding: .8rem 1rem; white-space: pre-wrap; margin: .6rem 0; }
section { margin-top: 3.5rem; padding-top: 2rem; border-top: 1px solid var(--line); scroll-margin-top: 1rem; }
nav { margin-top: 1.6rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .95rem; }
nav a { text-decoration: none; padding: .2rem 0; }
nav a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1rem 2rem;
  margin: 2rem 0 0; }
.figures div { border-top: 2px solid var(--accent); padding-top: .5rem; }
.figures dt { color: var(--soft); font-size: .88rem; }
.figures dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.figures dd small { display: block; font-size: .85rem; font-weight: 400; color: var(--soft); line-height: 1.4; }
.figures dd small.bad { color: var(--bad); font-weight: 600; }
.behind { color: var(--bad); font-weight: 600; }
.worse { color: var(--bad); font-weight: 600; border-left: 4px solid var(--bad); padding: .2rem 0 .2rem .9rem; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .4rem 1.5rem; margin: 1rem 0; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; }
figure { margin: 1.2rem 0 1.8rem; }
figcaption { margin-top: .4rem; max-width: 44rem; }
.scroll { overflow-x: auto; max-width: 100%; padding: 2px; }
svg { display: block; }
svg.fluid { width: 100%; height: auto; max-width: 40rem; } svg.graph { max-width: 100%; height: auto; }
table { overflow-wrap: normal; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .42rem 1.1rem .42rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 500; font-size: .88rem; vertical-align: bottom; }
tbody th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.soft { min-width: 11rem; } tbody th { white-space: nowrap; }
td.best { font-weight: 700; color: var(--accent); }
td.bar { min-width: 6rem; width: 30%; }
td.bar i { display: block; height: .7rem; margin-top: .42rem; border-radius: 2px; background: rgb(var(--shade) / .55);
  width: calc(var(--p) * 100%); min-width: 1px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1.2rem 2rem;
  margin: 1rem 0; }
.card h4 { margin: 0 0 .3rem; font-size: .98rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
.card ol { list-style: none; margin: 0; padding: 0; font-size: .92rem; }
.card.many { grid-column: 1 / -1; } .card.many ol { columns: 11rem; column-gap: 2rem; }
.card li { display: flex; justify-content: space-between; gap: 1rem; padding: .08rem .35rem; border-radius: 3px;
  background: linear-gradient(to right, rgb(var(--shade) / .16) calc(var(--p) * 100%), transparent 0); }
.card li span { color: var(--soft); font-variant-numeric: tabular-nums; }
table.matrix { font-size: .82rem; } table.matrix th, table.matrix td { padding: .22rem .45rem; border: 0;
  text-align: right; }
table.matrix td { background: rgb(var(--shade) / calc(var(--p) * .55)); min-width: 2.2rem; }
table.matrix td.own { box-shadow: inset 0 0 0 2px var(--accent); }
table.matrix thead th { vertical-align: bottom; }
.example { padding: 1.1rem 0 .9rem; border-bottom: 1px solid var(--line); break-inside: avoid; }
.example h3 { margin: 0 0 .5rem; font-size: .9rem; font-weight: 500; color: var(--soft); display: flex;
  flex-wrap: wrap; gap: 0 1rem; }
.example h3 b { color: var(--ink); font-weight: 600; }
.words { line-height: 1.35; }
.w { display: inline-block; text-align: center; padding: .22rem .45rem .18rem; margin: .16rem .12rem;
  border-radius: .35rem;
  background: rgb(var(--shade) / calc(var(--p) * .3)); unicode-bidi: isolate; vertical-align: top; max-width: 100%; }
.w small { display: block; font-size: .74rem; color: var(--soft); }
.w small.bad { color: var(--bad); font-weight: 600; } .w small.gold::before { content: "gold "; }
.w.wrong { box-shadow: inset 0 -2px 0 var(--bad); }
.cut { display: inline-block; width: 3px; height: 1.5em; vertical-align: middle; margin: 0 .28rem; border-radius: 2px;
  background: rgb(var(--shade) / calc(.15 + var(--p) * .85)); }
.cut.bad { background: rgb(var(--bad-shade) / calc(.25 + var(--p) * .75)); }
.cut.missed { background: none; border-left: 3px dotted var(--bad); }
.gap { display: inline-block; width: .3rem; height: 1.2em; vertical-align: middle; }
.line { font-size: 1.15rem; line-height: 2; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .88rem; color: var(--soft); align-items: center; }
.key i { display: inline-block; width: 1rem; height: .7rem; border-radius: 2px; margin-right: .35rem; }
form.search { display: flex; flex-wrap: wrap; gap: .5rem 1.2rem; align-items: center; margin: 1rem 0; }
input[type=search] { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--soft);
  border-radius: .4rem; padding: .4rem .7rem; width: 16rem; max-width: 100%; }
#tip { position: fixed; z-index: 9; max-width: min(20rem, calc(100vw - 16px)); padding: .35rem .65rem;
  border-radius: .4rem;
  background: var(--ink); color: var(--paper); font-size: .88rem; line-height: 1.45; pointer-events: none;
    white-space: pre-line; }
[hidden] { display: none !important; }
.arc.right { --c: var(--s0); } .arc.turned { --c: var(--s4); } .arc.wrong { --c: var(--bad); } .arc.missed {
  --c: var(--s7); }
.arc.plain { --c: var(--ink); }
.arc path.line { stroke: var(--c); } .arc path.head { fill: var(--c); }
.node.right { --c: var(--s0); } .node.new { --c: var(--s7); } .node.crossing { --c: var(--bad); } .node.plain
  { --c: var(--ink); }
.node path, .node circle { stroke: var(--c); } .node circle { fill: var(--c); }
svg .sub { fill: var(--soft); }
svg .axis { stroke: var(--line); } svg .curve { stroke: var(--accent); } svg .dot { fill: var(--accent); }
svg .faint { stroke: var(--soft); opacity: .45; }
.st0 { --c: var(--s0); } .st1 { --c: var(--s1); } .st2 { --c: var(--s2); } .st3 { --c: var(--s3); }
.st4 { --c: var(--s4); } .st5 { --c: var(--s5); } .st6 { --c: var(--s6); } .st7 { --c: var(--s7); }
svg circle.state, svg rect.state { fill: var(--c); } svg path.move { stroke: var(--c); } svg path.point {
  fill: var(--c); }
svg .on { fill: var(--paper); } .key i.swatch { background: var(--c); }
svg .cell { fill: var(--accent); stroke: var(--line); } svg .found { fill: var(--s0); }
svg .sure { stroke: var(--s1); } svg .possible { stroke: var(--s7); }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 0 2rem; }
.example h4 { margin: .8rem 0 .2rem; font-size: .95rem; }
footer { margin-top: 4rem; color: var(--soft); font-size: .88rem; }
@media (max-width: 40rem) {
  body { font-size: 15.5px; } main { padding: 1.6rem 1rem 3rem; }
  h1 { font-size: 1.6rem; } section { margin-top: 2.4rem; padding-top: 1.5rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .6rem; }
  .figures { grid-template-columns: 1fr 1fr; gap: 1rem; }
  .cards { grid-template-columns: 1fr 1fr; gap: 1rem; } .cards.wide { grid-template-columns: 1fr; }
  th, td { padding-right: .8rem; } td.soft { white-space: nowrap; } svg.fluid text { font-size: 20px; }
}
@media print {
  nav, form.search, #tip { display: none !important; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  section { border: 0; margin-top: 1.5rem; padding-top: .5rem; } .scroll { overflow: visible; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } figure, .card, tr { break-inside: avoid; }
}
"""
