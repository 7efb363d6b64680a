/** Light, dark, or as the system has it. */

import { signal } from '@preact/signals';

/** The themes that a person can choose from. */
export const THEMES = ['system', 'light', 'dark'] as const;

/** One of {@link THEMES}. */
export type Theme = (typeof THEMES)[number];

const KEY = 'theme';

const kept = (): Theme => THEMES.find((one) => one === localStorage.getItem(KEY)) ?? 'system';

/** The chosen theme. */
export const theme = signal<Theme>('system');

/** Shows the page in the theme of this browser. */
export function applyTheme(): void {
  setTheme(kept());
}

/** Chooses a theme and keeps it. */
export function setTheme(next: Theme): void {
  theme.value = next;
  if (next === 'system') {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, next);
    document.documentElement.dataset.theme = next;
  }
}
