/** The icon of the page's tab, with the number of waiting items. */

import { effect } from '@preact/signals';
import { waitingCount } from './store.ts';

/** A PNG, because Firefox draws no SVG without a size. */
const ICON = 'icon-192.png';
const SIZE_PX = 64;
const BADGE_HEIGHT_PX = 42;
const BADGE_COLOR = '#c2410c';

/** Keeps the number of waiting items on the icon. Rejects if the icon cannot be loaded. */
export async function showCountOnIcon(): Promise<void> {
  const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  if (!link) return;
  const { href, type } = link;
  const icon = new Image();
  icon.src = ICON;
  await icon.decode();
  effect(() => {
    const count = waitingCount.value;
    const badged = count === 0 ? null : drawIcon(icon, count);
    link.type = badged === null ? type : 'image/png';
    link.href = badged ?? href;
  });
}

/** Returns a data URL. At the 16 pixels of a tab, only two digits are readable. */
function drawIcon(icon: HTMLImageElement, count: number): string | null {
  const canvas = document.createElement('canvas');
  canvas.width = SIZE_PX;
  canvas.height = SIZE_PX;
  const drawing = canvas.getContext('2d');
  if (!drawing) return null;
  const text = count > 99 ? '99' : String(count);
  drawing.drawImage(icon, 0, 0, SIZE_PX, SIZE_PX);
  drawing.font = `bold ${BADGE_HEIGHT_PX - 4}px sans-serif`;
  const width = Math.max(BADGE_HEIGHT_PX, drawing.measureText(text).width + 10);
  drawing.fillStyle = BADGE_COLOR;
  drawing.beginPath();
  drawing.roundRect(SIZE_PX - width, SIZE_PX - BADGE_HEIGHT_PX, width, BADGE_HEIGHT_PX, BADGE_HEIGHT_PX / 2);
  drawing.fill();
  drawing.fillStyle = '#fff';
  drawing.textAlign = 'center';
  drawing.textBaseline = 'middle';
  drawing.fillText(text, SIZE_PX - width / 2, SIZE_PX - BADGE_HEIGHT_PX / 2 + 2);
  return canvas.toDataURL();
}
