"""The report's style sheet: light or dark as the reader's system prefers, with eight colours for sites and routes."""

STYLE = """
:root { --paper:#fff; --ink:#1c2330; --soft:#5d6878; --rule:#e3e7ee; --card:#f6f8fb; --good:#1a7f4b; --bad:#c62f3d;
  --warn:#b06f00; --c0:#3366cc; --c1:#d9641e; --c2:#1f9d76; --c3:#9a4fc4; --c4:#c2395b; --c5:#7a8b1e; --c6:#1499ad;
  --c7:#6b6f7d; }
@media (prefers-color-scheme: dark) { :root { --paper:#14181f; --ink:#e5e9f0; --soft:#99a4b5; --rule:#2b323e;
  --card:#1c222c; --good:#4cc38a; --bad:#ff6b75; --warn:#f0b04c; --c0:#7aa2ff; --c1:#ff9558; --c2:#4fd0a5;
  --c3:#c68bea; --c4:#f2708f; --c5:#b6c955; --c6:#4fc6d8; --c7:#9aa0ae; } }
* { box-sizing:border-box } html { background:var(--paper); color:var(--ink) }
body { font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; max-width:1060px; margin:0 auto;
  padding:28px 24px 60px } h1 { font-size:25px; margin:0 0 2px } h2 { font-size:18px; margin:38px 0 6px }
h3 { font-size:14px; margin:18px 0 4px; color:var(--soft); font-weight:600 }
p { margin:4px 0 10px; color:var(--soft); max-width:82ch } .sub { color:var(--soft); margin:0 0 18px }
.verdict { border-radius:10px; padding:13px 18px; font-weight:600; font-size:17px; margin:14px 0 16px;
  border:1px solid; display:flex; gap:12px; align-items:baseline }
.verdict small { font-weight:400; color:var(--soft); font-size:14px }
.good { color:var(--good) } .bad { color:var(--bad) } .warn { color:var(--warn) }
.verdict.good { background:color-mix(in srgb,var(--good) 9%,var(--paper)) }
.verdict.warn { background:color-mix(in srgb,var(--warn) 9%,var(--paper)) }
.verdict.bad { background:color-mix(in srgb,var(--bad) 9%,var(--paper)) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(128px,1fr)); gap:10px; margin:0 0 8px }
.card { background:var(--card); border-radius:10px; padding:10px 14px } .card b { display:block; font-size:22px;
  font-variant-numeric:tabular-nums } .card span { color:var(--soft); font-size:13px }
.on-narrow { display:none } figure.plot { margin:0 } figure.live .on-wide, figure.live .on-narrow { display:none }
svg.drawn { touch-action:pan-y; cursor:crosshair } .cursor { stroke:var(--ink); stroke-width:1 }
.chosen { fill:var(--ink); opacity:.12 } .says { font-size:13px; min-height:20px; margin:0;
  font-variant-numeric:tabular-nums } svg.bars { max-width:540px }
h3 i { display:inline-block; width:12px; height:12px; border-radius:3px; margin-right:6px; vertical-align:-1px }
.at.bad path { fill:var(--bad) } .at.warn path { fill:var(--warn) }
.at:target path { stroke:var(--ink); stroke-width:3 }
.legend { color:var(--soft); font-size:13.5px } dl { display:grid; grid-template-columns:max-content 1fr; gap:2px 14px }
dt { font-weight:600 } dd { margin:0 } dt:target, dt:target + dd { color:var(--ink) } a { color:inherit }
th button { all:unset; cursor:pointer } th button:focus-visible { outline:2px solid var(--ink) }
th[aria-sort=ascending] button::after { content:" ▲" } th[aria-sort=descending] button::after { content:" ▼" }
input[type=search] { font:inherit; padding:5px 9px; border:1px solid var(--rule); border-radius:7px; max-width:100%;
  background:var(--card); color:var(--ink) }
@media (max-width:900px) { .on-wide { display:none } .on-narrow { display:block; max-width:560px } }
@media (max-width:700px) { body { padding:18px 12px 40px }
  dl { grid-template-columns:1fr } dd { margin:0 0 6px } .verdict { flex-wrap:wrap } }
svg { width:100%; height:auto; display:block; overflow:visible } .half { display:grid; gap:26px;
  grid-template-columns:1fr 1fr } @media (max-width:960px) { .half { grid-template-columns:1fr } }
table { border-collapse:collapse; font-size:13.5px; font-variant-numeric:tabular-nums; margin:6px 0 12px }
th { text-align:right; font-weight:600; color:var(--soft); padding:5px 10px; border-bottom:1px solid var(--rule) }
td { text-align:right; padding:4px 10px; border-bottom:1px solid var(--rule) } th.l,td.l { text-align:left }
td.zero { color:color-mix(in srgb,var(--soft) 55%,var(--paper)) } td.bad { font-weight:700 }
.wide { overflow-x:auto }
.matrix td { text-align:center; min-width:64px; padding:5px 8px; border:2px solid var(--paper) }
.matrix td.ok { background:color-mix(in srgb,var(--good) 16%,var(--paper)) }
.matrix td.no { background:color-mix(in srgb,var(--bad) 22%,var(--paper)); font-weight:700 }
.matrix td.off { background:var(--card); color:var(--soft) }
.key { display:flex; flex-wrap:wrap; gap:4px 18px; margin:2px 0 4px; font-size:13px; color:var(--soft) }
.key i { display:inline-block; width:12px; height:12px; border-radius:3px; margin-right:6px; vertical-align:-1px }
.tick { font-size:12.5px; fill:var(--soft) } .name { font-size:12.5px; fill:var(--ink) }
.site { font-size:13px; font-weight:700; fill:var(--ink) } .grid { stroke:var(--rule) } .axis { stroke:var(--soft) }
.line { fill:none; stroke-width:1.9; stroke-linejoin:round } 
.band { opacity:.16 } .shade { fill:var(--bad); opacity:.12 } .mark line { stroke:var(--bad); stroke-width:1.2;
  stroke-dasharray:4 3; opacity:.75 } .view.shade1 { opacity:.72 } .life { opacity:.28 }
.inside { font-size:12.5px; fill:var(--paper); font-weight:600; pointer-events:none } .left { fill:var(--ink) }
.crash { stroke:var(--bad); stroke-width:2.4; fill:none } footer { color:var(--soft); font-size:13px;
  margin-top:44px; border-top:1px solid var(--rule); padding-top:12px }
""" + "\n".join(f".c{n} {{ stroke:var(--c{n}) }} .f{n} {{ fill:var(--c{n}); background:var(--c{n}) }}"
                for n in range(8))
