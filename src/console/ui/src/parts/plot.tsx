// Lines over time, drawn by uPlot in the theme's colours.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { drawnTheme } from "../app/state";

export interface Series {
  label: string;
  colour?: string;
  values: (number | null)[];
  bars?: boolean;
}

interface Props {
  /** Seconds since 1970, or any rising numbers when `time` is off. */
  at: number[];
  series: readonly Series[];
  height?: number;
  time?: boolean;
  points?: boolean;
  label: string;
}

const COLOURS = ["accent", "info", "warn", "bad", "good"];

export default function Plot({ at, series, height = 180, time = true, points = false, label }: Props) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "11px system-ui, sans-serif" };
    const width = () => Math.max(element.clientWidth, 120);
    const barred = uPlot.paths.bars?.({ size: [0.7, 40] });
    const plot = new uPlot(
      {
        width: width(),
        height,
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        scales: { x: { time } },
        axes: [axis, { ...axis, size: 56 }],
        series: [
          {},
          ...series.map((one, index) => {
            const stroke = colour(one.colour ?? COLOURS[index % COLOURS.length] ?? "accent");
            const bars = one.bars && barred ? { paths: barred, fill: stroke, points: { show: false } } : { points: { show: points, size: 5, fill: stroke } };
            const line = points && !one.bars ? { paths: () => null } : {};
            return { label: one.label, stroke, width: 1.75, ...bars, ...line };
          }),
        ],
      },
      [at, ...series.map((one) => one.values)],
      element,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: width(), height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [at, series, height, drawnTheme.value]);
  return <div ref={box} class="plot" role="img" aria-label={label} />;
}
