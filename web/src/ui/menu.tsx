/** A button that opens a list of things to do. */

import { MoreHorizontal } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** One thing of a menu. */
export interface MenuItem {
  label: string;
  icon: ComponentChildren;
  isDangerous?: boolean;
  onSelect: () => void;
}

/** The menu; `label` names its button. */
export function Menu({ label, items }: { label: string; items: MenuItem[] }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const entries = () => [...(root.current?.querySelectorAll<HTMLButtonElement>('[role="menuitem"]') ?? [])];

  useLayoutEffect(() => {
    if (!open) return undefined;
    // At once: later it might take the focus from where a fast person has gone.
    entries()[0]?.focus();
    const outside = ({ target }: Event) => {
      if (!root.current?.contains(target as Node)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    return () => document.removeEventListener('pointerdown', outside);
  }, [open]);

  const close = () => {
    setOpen(false);
    root.current?.querySelector('button')?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) return;
    const all = entries();
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 };
    const to = moves[event.key];
    if (event.key === 'Escape') close();
    else if (event.key === 'Tab') setOpen(false);
    else if (to !== undefined) all[to % all.length]?.focus();
    if (event.key === 'Escape' || to !== undefined) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown}>
      <button
        type="button"
        class="button quiet icon"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <MoreHorizontal size={20} aria-hidden />
      </button>
      {open && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map(({ label: name, icon, isDangerous, onSelect }) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={isDangerous ? 'danger' : ''}
              onClick={() => {
                close();
                onSelect();
              }}
            >
              {icon}
              {name}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
