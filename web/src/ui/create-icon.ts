/**
 * Creates the components of the icons of `lucide-preact`, instead of the library's own function (`vite.config.ts`). A scrolled
 * conversation mounts many icons, and this function creates only one component and one element for each icon.
 */

import { h, type SVGAttributes } from 'preact';

/** The data of an icon: elements with their attributes. */
interface Icon {
  node: [name: string, attributes: Record<string, string>][];
}

interface Props extends SVGAttributes<SVGSVGElement> {
  size?: number;
}

/** The library is the only source of icons, so the attributes need no escaping. */
const toMarkup = ({ node }: Icon): string =>
  node
    .map(
      ([name, { key: _, ...attributes }]) =>
        `<${name} ${Object.entries(attributes)
          .map(([key, value]) => `${key}="${value}"`)
          .join(' ')}/>`,
    )
    .join('');

/** An icon without a role is hidden from screen readers. */
export default function createIcon(icon: Icon) {
  const markup = { __html: toMarkup(icon) };
  return ({ size = 24, ...attributes }: Props) =>
    h('svg', {
      width: size,
      height: size,
      viewBox: '0 0 24 24',
      fill: 'none',
      stroke: 'currentColor',
      'stroke-width': 2,
      'stroke-linecap': 'round',
      'stroke-linejoin': 'round',
      'aria-hidden': attributes.role === undefined ? true : undefined,
      ...attributes,
      dangerouslySetInnerHTML: markup,
    });
}
