// Elements. All text of the recording goes through textContent.

type Props = { class?: string | undefined; text?: string; title?: string | undefined; on?: Record<string, (event: any) => void>; [attribute: string]: unknown };

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: (Node | string | null)[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || (value === false && !key.startsWith("aria-"))) continue;
    if (key === "text") node.textContent = String(value);
    else if (key === "on") for (const [name, run] of Object.entries(props.on!)) node.addEventListener(name, run);
    else node.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : String(value));
  }
  for (const child of children) if (child !== null) node.append(child);
  return node;
}

export function clear(node: Element): void {
  node.replaceChildren();
}

/** A canvas fitted to its box at the screen's resolution; `null` without room. */
export function fit(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  // Browsers draw nothing on canvases above some size.
  const scale = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(width, height, 1));
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (w < 1 || h < 1) return null;
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context?.setTransform(scale, 0, 0, scale, 0, 0);
  context?.clearRect(0, 0, width, height);
  return context;
}
