/** Between any two of these another connection may do anything; tests let it. */
export const PAGE_STEPS = [
  'pages:index-read',
  'pages:begun',
  'pages:backfill-read',
  'pages:taken',
  'pages:frames-read',
  'pages:old-released',
  'pages:before-read',
  'pages:after-read',
  'pages:before-checkpoint',
  'pages:after-checkpoint',
] as const

/** A step of a capture. */
export type PageStep = (typeof PAGE_STEPS)[number]
