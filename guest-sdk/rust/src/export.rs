//! `export!`, which `#[operator]` expands to.

/// Makes the crate a component whose operator is this type. [`#[operator]`](crate::operator) does
/// it too.
///
/// The crate must be a `cdylib`; once for each crate. On anything but WebAssembly it only
/// checks that the type is an operator, so the same crate can be tested natively.
///
/// `export!(Operator, handlers)` is for an operator that has timers, `on_watermark` or
/// `on_checkpoint_complete`. Without `handlers`, the host does not call these.
#[macro_export]
macro_rules! export {
    ($operator:ty) => {
        $crate::__component!($operator, false);

        #[cfg(target_arch = "wasm32")]
        $crate::__private::export_stateful!(__HowdahComponent with_types_in $crate::bindings);
    };
    ($operator:ty, handlers) => {
        $crate::__component!($operator, true);

        #[cfg(target_arch = "wasm32")]
        $crate::bindings::export!(__HowdahComponent with_types_in $crate::bindings);
    };
}

/// What both forms of `export!` begin with.
#[doc(hidden)]
#[macro_export]
macro_rules! __component {
    ($operator:ty, $has_handlers:literal) => {
        const _: fn() = || {
            fn is_operator<O: $crate::Operator>() {}
            is_operator::<$operator>();
        };

        #[cfg(target_arch = "wasm32")]
        #[doc(hidden)]
        struct __HowdahComponent;

        #[cfg(target_arch = "wasm32")]
        impl $crate::__private::Component for __HowdahComponent {
            type Operator = $operator;

            const HAS_HANDLERS: bool = $has_handlers;

            fn slot() -> &'static ::std::thread::LocalKey<$crate::__private::Slot<$operator>> {
                ::std::thread_local! {
                    static SLOT: $crate::__private::Slot<$operator> =
                        const { $crate::__private::Slot::empty() };
                }
                &SLOT
            }
        }
    };
}
