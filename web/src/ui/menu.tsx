/** A button that opens a menu (ARIA Authoring Practices, "Menu Button Pattern"). */

import { MoreHorizontal } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface MenuItem {
  label: string;
  icon: ComponentChildren;
  isDangerous?: boolean;
  onSelect: () => void;
}

/** `label` names both the button and the menu for screen readers. */
export function MenuButton({ label, items }: { label: string; items: MenuItem[] }) {
  const [isOpen, setIsOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const getItems = () => [...(root.current?.querySelectorAll<HTMLButtonElement>('[role="menuitem"]') ?? [])];

  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    // In a layout effect: a later effect could take the focus from an element that the user has focused meanwhile.
    getItems()[0]?.focus();
    const closeOnOutsidePress = ({ target }: Event) => {
      if (!root.current?.contains(target as Node)) setIsOpen(false);
    };
    document.addEventListener('pointerdown', closeOnOutsidePress);
    return () => document.removeEventListener('pointerdown', closeOnOutsidePress);
  }, [isOpen]);

  const closeAndFocusButton = () => {
    setIsOpen(false);
    root.current?.querySelector('button')?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const buttons = getItems();
    const index = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const targets: Record<string, number> = { ArrowDown: index + 1, ArrowUp: index - 1 + buttons.length, Home: 0, End: buttons.length - 1 };
    const target = targets[event.key];
    if (event.key === 'Escape') closeAndFocusButton();
    // The browser moves the focus to the next element.
    else if (event.key === 'Tab') setIsOpen(false);
    else if (target !== undefined) buttons[target % buttons.length]?.focus();
    if (event.key === 'Escape' || target !== undefined) {
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
        aria-expanded={isOpen}
        onClick={() => setIsOpen(!isOpen)}
      >
        <MoreHorizontal size={20} aria-hidden />
      </button>
      {isOpen && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map(({ label: name, icon, isDangerous, onSelect }) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={isDangerous ? 'danger' : ''}
              onClick={() => {
                closeAndFocusButton();
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
