/** A page's heading; it takes the focus when the page changes, so that keyboards land there. */
import { type ReactNode, useEffect, useRef } from "react";

export function Heading({ className, children }: { className?: string; children: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <h1 ref={heading} tabIndex={-1} className={className}>
      {children}
    </h1>
  );
}
