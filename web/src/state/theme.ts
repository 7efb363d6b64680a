/** The colour theme, stored in this browser. */

import { signal } from '@preact/signals';

export const THEMES = ['system', 'light', 'dark'] as const;

export type Theme = (typeof THEMES)[number];

const KEY = 'theme';

const storedTheme = (): Theme => THEMES.find((name) => name === localStorage.getItem(KEY)) ?? 'system';

export const theme = signal<Theme>('system');

export function applyStoredTheme(): void {
  setTheme(storedTheme());
}

/** Applies a theme and stores it. */
export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  if (chosen === 'system') {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, chosen);
    document.documentElement.dataset.theme = chosen;
  }
}
