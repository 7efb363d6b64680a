/** A button that opens a menu (ARIA Authoring Practices, "Menu Button Pattern"). */

import { MoreHorizontal } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface MenuItem {
  label: string;
  /** Needed if several items may have the same label. */
  key?: string;
  icon: ComponentChildren;
  isDangerous?: boolean;
  /** Whether this item is the selected item of its group. Absent without a group. */
  isSelected?: boolean;
  /** Shown at the end of the item. */
  detail?: ComponentChildren;
  onSelect: () => void;
}

/** The smallest distance of a menu from the window's sides, in pixels. */
const MARGIN = 8;

interface Props {
  /** Names both the button and the menu for screen readers. */
  label: string;
  items: MenuItem[];
  /** The class and the content of the button; by default an icon. */
  class?: string;
  children?: ComponentChildren;
}

export function MenuButton({ label, items, class: className = 'button quiet icon', children }: Props) {
  const [isOpen, setIsOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const getItems = () => [...(root.current?.querySelectorAll<HTMLButtonElement>('[role^="menuitem"]') ?? [])];

  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    // In a layout effect: a later effect could take the focus from an element that the user has focused meanwhile.
    getItems()[0]?.focus();
    const list = root.current?.querySelector<HTMLElement>('.menu-list');
    if (list) list.style.translate = `${offsetIntoWindow(list.getBoundingClientRect())}px`;
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
        class={className}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setIsOpen(!isOpen)}
      >
        {children ?? <MoreHorizontal size={20} />}
      </button>
      {isOpen && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map(({ label: name, key = name, icon, isDangerous, isSelected, detail, onSelect }) => (
            <button
              key={key}
              type="button"
              {...(isSelected === undefined ? { role: 'menuitem' } : { role: 'menuitemradio', 'aria-checked': isSelected })}
              tabIndex={-1}
              class={isDangerous ? 'danger' : ''}
              onClick={() => {
                closeAndFocusButton();
                onSelect();
              }}
            >
              {icon}
              <span class="ellipsis">{name}</span>
              {detail}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Returns how far a box must move to the right to be within the window. */
const offsetIntoWindow = ({ left, right }: DOMRect): number => Math.max(0, MARGIN - left) || Math.min(0, innerWidth - MARGIN - right);
